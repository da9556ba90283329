package recipes

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/batonzk/baton/framework"
)

// A MultiLease is all the leases of an [InterProcessMultiLock], as one. It is
// held for as long as each of them is, and ends with the first that ends.
//
// All methods are safe for concurrent use, and only Release blocks.
type MultiLease struct {
	leases Leases // in the order in which they were acquired
	ctx    context.Context
	cancel context.CancelCauseFunc // of ctx

	once    sync.Once
	outcome error // the release's
}

func newMultiLease(leases []*Lease) *MultiLease {
	base, cancel := context.WithCancelCause(context.Background())
	m := &MultiLease{leases: leases, cancel: cancel}
	m.ctx = m.Context(base)
	return m
}

// Release gives all leases back, in the reverse of the order in which they
// were acquired, and each of them whatever comes of the others. It takes a round
// trip for each, and about as long as a session timeout if there is no
// connection. The errors are those of [Lease.Release], joined, the first one
// first. It may be called any number of times, by several goroutines; all wait
// for the first call and get its result.
func (m *MultiLease) Release() error {
	m.once.Do(func() {
		_ = m.Err() // what was lost before was lost, not released
		m.cancel(fmt.Errorf("%w: %d locks", ErrReleased, len(m.leases)))
		m.outcome = releaseAll(m.leases, (*Lease).Release)
	})
	return m.outcome
}

// Err returns nil while all the leases are held or unknown, and then for ever
// how the first of them to end did: [ErrReleased], [ErrLost], [ErrRevoked] or
// [ErrClosed], wrapped with what happened. That a lease was released by itself
// ends the whole, too. What is left of it stays held until it is released.
func (m *MultiLease) Err() error {
	if m.ctx.Err() == nil {
		return nil
	}
	return context.Cause(m.ctx)
}

// State returns what is known of the leases now: the worst that is known of one
// of them.
func (m *MultiLease) State() LeaseState {
	state := LeaseHeld
	if err := m.Err(); err != nil {
		state = endState(err)
	}
	for _, l := range m.leases {
		switch s := l.State(); {
		case s == LeaseLost && state == LeaseRevoked:
			return LeaseLost
		case s == LeaseUnknown && state == LeaseHeld:
			return LeaseUnknown
		}
	}
	return state
}

// Done returns a channel that is closed when the first of the leases ends, or
// Release is called.
func (m *MultiLease) Done() <-chan struct{} { return m.ctx.Done() }

// Leases returns the leases in the order in which they were acquired. The
// caller owns the slice.
func (m *MultiLease) Leases() []*Lease { return slices.Clone(m.leases) }

// Token returns a fencing token for all the locks together, the largest of the
// leases' tokens. It is larger for each later holder of the same set of locks:
// each of that holder's tokens exceeds the one that its predecessor had for the
// same lock, and so the largest exceeds them all.
//
// It says nothing to those who hold other sets. One who holds only one of
// the locks may come later with a smaller token, for the largest may be that of
// another lock. A resource that is written under different sets of locks has to
// compare the token of the one lock that they share: that of its lease.
func (m *MultiLease) Token() int64 {
	token := m.leases[0].Token()
	for _, l := range m.leases[1:] {
		token = max(token, l.Token())
	}
	return token
}

// Checks returns the operations that make a [framework.Client.Multi] fail once
// one of the leases' nodes is gone, as [Lease.Check] does. They can be in one
// multi if all the locks are of one client.
func (m *MultiLease) Checks() []framework.Op {
	return m.leases.Checks()
}

// Context returns a context that ends when parent ends and when the first of
// the leases does. [context.Cause] then says how that ended. Its Err and Done look
// at the clock first, as the leases do. It carries all the holds: to acquire any
// of the locks with it is to re-enter. See [Lease.Context] for the rest.
func (m *MultiLease) Context(parent context.Context) context.Context {
	return m.leases.Context(parent)
}
