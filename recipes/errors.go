package recipes

import (
	"errors"

	"github.com/batonzk/baton/framework"
)

// How a lease is not got, or ends. Errors of this package wrap one of these,
// or one of package framework, with the lock's path and what happened;
// [errors.Is] finds it, as it finds the errors of a context.
var (
	// ErrHeld is TryAcquire's answer when it is somebody else's turn.
	ErrHeld = errors.New("recipes: held by another")
	// ErrLost says that a lease ended although nobody released it: its session
	// was lost or its node was deleted.
	ErrLost = errors.New("recipes: lease lost")
	// ErrRevoked says that a lease ended because somebody asked for it with
	// [Revoke] and the mutex was made with [EndWhenRevoked].
	ErrRevoked = errors.New("recipes: lease revoked")
	// ErrReleased says that a lease was released.
	ErrReleased = errors.New("recipes: lease released")
	// ErrNotHeld says that what is to be released is no lease of this mutex.
	ErrNotHeld = errors.New("recipes: not a lease of this lock")
	// ErrDeadlock says that to wait would be to wait for oneself.
	ErrDeadlock = errors.New("recipes: would wait for itself")
	// ErrClosed says that the client was closed. It is [framework.ErrClosed].
	ErrClosed = framework.ErrClosed
)

// Why a lease was lost, other than by its session.
var (
	errNodeDeleted = errors.New("somebody deleted the node")
	errSuspended   = errors.New("the connection is suspended")
)
