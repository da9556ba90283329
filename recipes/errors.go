package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batonzk/baton/framework"
)

// How a lease is not got, or ends. Errors of this package wrap one of these,
// or one of package framework, with the lock's path and what happened;
// [errors.Is] finds it, as it finds the errors of a context.
var (
	// ErrHeld is TryAcquire's answer when it is somebody else's turn, or there
	// are too few permits.
	ErrHeld = errors.New("recipes: held by another")
	// ErrDeadlock says that to wait would be to wait for oneself: the context
	// carries a lease that would have to be released first.
	ErrDeadlock = errors.New("recipes: would wait for itself")
	// ErrLost says that a lease ended although nobody released it: its session
	// was lost or its node was deleted.
	ErrLost = errors.New("recipes: lease lost")
	// ErrRevoked says that a lease ended because somebody asked for it with
	// [Revoke] and the lock was made with [EndWhenRevoked].
	ErrRevoked = errors.New("recipes: lease revoked")
	// ErrReleased says that a lease was released, or a generator closed.
	ErrReleased = errors.New("recipes: lease released")
	// ErrNotHeld says that what is to be released is no lease of this lock.
	ErrNotHeld = errors.New("recipes: not a lease of this lock")
	// ErrWrongRoot says that a path is the root of another recipe, or lies in it,
	// or has it in it, and that the two must be kept apart: a lock and a
	// generator of IDs, or two generators.
	ErrWrongRoot = errors.New("recipes: wrong root")
	// ErrCorrupt says that a node holds what its recipe cannot have written. It is
	// left as it is.
	ErrCorrupt = errors.New("recipes: corrupt data")
	// ErrExhausted says that a generator has no number left.
	ErrExhausted = errors.New("recipes: no number is left")
	// ErrNoWorkerSlot says that no worker number was free. The error is a
	// *[NoWorkerSlotError].
	ErrNoWorkerSlot = errors.New("recipes: no worker number is free")
	// ErrOtherLayout says that the root's IDs have another layout or epoch than
	// this process's.
	ErrOtherLayout = errors.New("recipes: another layout of IDs")
	// ErrClockSkew says that this process's clock and the servers' are too far
	// apart for any time to be reserved. Its text has both.
	ErrClockSkew = errors.New("recipes: the clocks disagree")
	// ErrClockBehind says that the IDs are too far ahead of this process's
	// clock for one more: it was set back.
	ErrClockBehind = errors.New("recipes: the clock is behind the IDs")
	// ErrLayoutExhausted is the ErrExhausted of IDs: their layout has no number for
	// the time any more.
	ErrLayoutExhausted = fmt.Errorf("%w: the layout's time is used up", ErrExhausted)
	// ErrClosed says that the client was closed, or the generator. It is
	// [framework.ErrClosed].
	ErrClosed = framework.ErrClosed
)

// A bare error is one of this package's without the package's name before it,
// for a message that has begun with that.
type bare struct{ error }

func (b bare) Error() string { return strings.TrimPrefix(b.error.Error(), "recipes: ") }
func (b bare) Unwrap() error { return b.error }

// ended says how and why ctx ended.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return bare{cause}
	}
	return fmt.Errorf("%w: %w", err, bare{cause})
}

// waited is ended of a ctx that bounded a wait for what client does in the
// background, with why that has no connection, if it has none.
func waited(ctx context.Context, client *framework.Client) error {
	err := ended(ctx)
	if why := client.ConnectionError(); why != nil {
		return fmt.Errorf("%w; the last connection failed: %w", err, why)
	}
	return err
}

// withContext puts before err how and why ctx ended, unless it has not, or err
// tells.
func withContext(ctx context.Context, err error) error {
	done := ctx.Err()
	switch {
	case done == nil, errors.Is(err, done) && errors.Is(err, context.Cause(ctx)):
		return err
	case errors.Is(done, err), errors.Is(context.Cause(ctx), err):
		return ended(ctx)
	}
	return fmt.Errorf("%w: %w", ended(ctx), bare{err})
}

// says reports whether err says target, and not only because it wraps the cause
// of ctx's end. That can be anything: what a server answered to somebody else,
// as in an errgroup, or the loss of another lock's lease. So nothing is
// concluded from an error once ctx is done.
func says(ctx context.Context, err, target error) bool {
	return errors.Is(err, target) && ctx.Err() == nil
}

// both joins two errors, unless one is nil or the first tells the second.
func both(err, also error) error {
	switch {
	case also == nil || errors.Is(err, also):
		return err
	case err == nil:
		return also
	}
	return errors.Join(err, also)
}

// isOutage reports whether err is of a time without servers, which passes.
func isOutage(err error) bool {
	return framework.IsRetryable(err) && !errors.Is(err, framework.ErrAuthFailed) && !errors.Is(err, ErrLost)
}

// errStays is wrapped by the error of a deletion that the server refuses: the
// node stays in line until its session ends.
var errStays = errors.New("the node stays until its session ends")

// Why a lease was lost, other than by its session.
var (
	errNodeDeleted = errors.New("somebody deleted the node")
	errSuspended   = errors.New("the connection is suspended")
)
