package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/batonzk/baton/framework"
)

// A LeaseState is what is known of a lease.
type LeaseState int

// The states of a lease.
const (
	// LeaseHeld: the lease is held, and its session has a connection.
	LeaseHeld LeaseState = iota + 1
	// LeaseUnknown: there is no connection, and the session's deadline has not
	// passed. The lease is held unless a server says otherwise. The servers give
	// the lock to another only later, on the condition that [Lease] names.
	LeaseUnknown
	// LeaseLost: the lease ended before it was released, and others may hold the
	// lock. [Lease.Err] says why.
	LeaseLost
	// LeaseReleased: the lease was released.
	LeaseReleased
	// LeaseRevoked: the lease ended at somebody's request, see
	// [EndWhenRevoked]. The lock stays closed to others until the release; if it
	// does not, since the session ends or the lock is taken by force, the state
	// becomes LeaseLost.
	LeaseRevoked
)

// String returns the state's name.
func (s LeaseState) String() string {
	switch s {
	case LeaseHeld:
		return "held"
	case LeaseUnknown:
		return "unknown"
	case LeaseLost:
		return "lost"
	case LeaseReleased:
		return "released"
	case LeaseRevoked:
		return "revoked"
	}
	return fmt.Sprintf("LeaseState(%d)", int(s))
}

// A Lease is something held: a lock, until it is released or lost. Leases got
// by re-entry share one hold. Each must be released; the lock is given up
// with the last of them, in whatever order.
//
// A lease is lost when its session is lost or its node is deleted, and ends
// with [ErrClosed] when its client is closed. Loss by a broken or silent
// connection is found by this process's own clock, before the servers give the
// lock to another. That holds as long as the server that answers is in touch
// with its leader: one that is cut off from it goes on answering pings for up to
// syncLimit × tickTime, and if that exceeds the session timeout, the leader may
// end the session first. Then, as against a pause of the process between a look
// and what is done on the strength of it, only [Lease.Token] and [Lease.Check]
// protect.
//
// All that a lease says about itself it says by looking at the clock first:
// after a pause of the whole process the first look already says lost.
//
// All methods are safe for concurrent use, and only Release blocks.
type Lease struct {
	hold *hold
	line *line // which the lease was asked of, maybe through another view than the hold's

	returned atomic.Bool   // Release was called
	released chan struct{} // closed when outcome is set
	outcome  error         // the release's
}

func newLease(h *hold, l *line) *Lease {
	return &Lease{hold: h, line: l, released: make(chan struct{})}
}

// Release gives the lease back. The last release of a hold first ends the
// hold's contexts, then deletes the node. It takes one round trip, and about
// as long as a session timeout if there is no connection; after that the
// deletion goes on in the background and the error says so. It may be called
// any number of times, by several goroutines; all wait for the first call and
// get its result. So a hook or log handler that the release itself runs must
// not call it.
//
// A lease that was lost can be released too. The result then is what
// [Lease.Err] says, wrapping [ErrLost] or [ErrClosed]: the work it was to
// protect may have been alone for a part of its time only. It wraps [ErrLost]
// also if it is the release that finds the node gone. Nothing of a later holder
// is touched. That a lease was revoked is no error of its release, if the lock
// was closed to others until then.
func (l *Lease) Release() error { return l.release(context.Background()) }

// release is Release. When ctx is done it does not wait for the deletion, which
// then goes on in the background.
func (l *Lease) release(ctx context.Context) error {
	if l.returned.CompareAndSwap(false, true) {
		defer close(l.released) // also if a hook panics
		l.outcome = l.hold.release(ctx)
		return l.outcome
	}
	<-l.released
	return l.outcome
}

// Err returns nil while the lease is held or unknown, and then for ever why
// it ended: [ErrReleased], [ErrLost], [ErrRevoked] or [ErrClosed], wrapped
// with what happened.
func (l *Lease) Err() error {
	if err := l.hold.look(); err != nil {
		return err
	}
	if l.returned.Load() {
		return l.hold.released()
	}
	return nil
}

// State returns what is known of the lease now.
func (l *Lease) State() LeaseState {
	switch err := l.Err(); {
	case errors.Is(err, ErrRevoked) && l.hold.lossSince() != nil:
		return LeaseLost
	case err != nil:
		return endState(err)
	}
	if !l.hold.session.Connected() {
		return LeaseUnknown
	}
	return LeaseHeld
}

// endState is the state of what ended with err.
func endState(err error) LeaseState {
	switch {
	case errors.Is(err, ErrReleased):
		return LeaseReleased
	case errors.Is(err, ErrRevoked):
		return LeaseRevoked
	}
	return LeaseLost
}

// Done returns a channel that is closed when the hold ends: with the last
// release of its leases, or when it is lost or revoked.
func (l *Lease) Done() <-chan struct{} { return l.hold.done }

// Token returns the fencing token: the transaction in which the lease's node
// was created, a number that is larger for each later holder for as long as
// the ensemble lives, whatever happens to the lock's path in between. Leases
// got by re-entry have the token of their hold, and a read lease got with a
// context of a write lease has the token of that. Readers who hold together
// have different tokens, in no order. A resource that remembers the
// largest token it has seen, and refuses smaller ones, is safe from a holder
// that does not know yet that it lost the lock.
func (l *Lease) Token() int64 { return l.hold.token }

// Check returns an operation for a [framework.Client.Multi] of the client
// that the lock was made with, or of any view of it; another client refuses
// it. It makes the multi fail once the lease's node is gone: in the servers'
// own order, so that nothing else of the multi is done by one who no longer
// holds the lock. The multi's error then wraps [ErrLost], also if the lease was
// released since Check was called. If the lease had ended before, the multi
// fails with [Lease.Err] and is not sent.
//
// It goes by the node's existence, not its version, which a request for
// revocation changes: the name is unique, nobody else's node can have it.
func (l *Lease) Check() framework.Op {
	if err := l.Err(); err != nil {
		return framework.FailOp(err)
	}
	h := l.hold
	return framework.CheckOp(h.path, framework.AnyVersion).
		For(h.line.client).Or(fmt.Errorf("%w: %s", ErrLost, h.path))
}

// Path returns the path of the lease's node, as the lock's client knows it.
func (l *Lease) Path() string {
	_, name := framework.SplitPath(l.hold.path)
	return framework.JoinPath(l.line.path, name)
}

// Data returns what the node was created with; see [WithData]. The caller
// must not change it.
func (l *Lease) Data() []byte { return l.hold.data }

// Revocation returns the last request to give the lock up that the holder has
// heard, and whether there was one.
func (l *Lease) Revocation() (Revocation, bool) { return l.hold.revocation() }

// Session returns the session that the lease is held in.
func (l *Lease) Session() *framework.Session { return l.hold.session }

// Context returns a context that ends when parent ends and when the hold
// ends, whichever is first. [context.Cause] then is [Lease.Err]. Its Err and
// Done look at the clock first, as the lease does. It carries the hold: to
// acquire the same lock with it, or with a context made from it, is to
// re-enter.
//
// A select that was waiting on it when the process was stopped is no look:
// when the process goes on, another case may be chosen first. Work that goes in
// steps calls the context's Err before each of them.
//
// The context needs no goroutine, and nothing has to be called to free it
// other than that the lease be released.
func (l *Lease) Context(parent context.Context) context.Context {
	return newLeaseContext(parent, l)
}
