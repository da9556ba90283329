package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/batonzk/baton/framework"
)

// An InterProcessMultiLock is several locks that are held together or not at
// all. They can be of different kinds, and of different clients.
//
// It acquires them one after the other, in the order of their paths, whatever
// the order in which they were given. So two that want the same locks never
// wait for each other, as long as all use that order: all users of
// InterProcessMultiLock do, unless they ask for [KeepOrder]. Locks of equal
// path keep the order in which they were given. Those of one lock do so to good
// effect: a writer that also reads has to be given before the reader. Those of
// different ensembles should not have equal paths, unless all name them in the
// same order. One lock given twice through two clients waits for itself.
//
// Like a lock it has no state of its own, and can be shared by any number of
// goroutines.
type InterProcessMultiLock struct {
	locks []InterProcessLock // in the order in which they are acquired
	err   error              // why it cannot be used
}

// A MultiOption changes one setting of an [InterProcessMultiLock].
type MultiOption func(*multiSettings)

type multiSettings struct{ keepOrder bool }

// KeepOrder has the locks acquired in the order in which they are given, as
// Curator does. It is for those who have to agree on an order with others,
// such as Curator's users. Two that want the same locks in different orders
// wait for each other until a context of theirs is done.
func KeepOrder() MultiOption {
	return func(s *multiSettings) { s.keepOrder = true }
}

// NewInterProcessMultiLock returns a lock that consists of locks. It does no
// I/O. The slice is copied. That it is empty, and a lock or option that cannot be
// used, is the error of every call that would do I/O.
func NewInterProcessMultiLock(locks []InterProcessLock, opts ...MultiOption) *InterProcessMultiLock {
	var s multiSettings
	err := apply(&s, opts)
	ordered, unusable := rankLocks(locks, s.keepOrder)
	if err = errors.Join(err, unusable); err != nil {
		return &InterProcessMultiLock{err: fmt.Errorf("recipes: multi lock: %w", bare{err})}
	}
	return &InterProcessMultiLock{locks: ordered}
}

var errNoLocks = fmt.Errorf("%w: no locks", framework.ErrInvalidOption)

// rankLocks returns the locks in the order in which they are to be acquired.
func rankLocks(locks []InterProcessLock, keep bool) ([]InterProcessLock, error) {
	if len(locks) == 0 {
		return nil, errNoLocks
	}
	type ranked struct {
		lock InterProcessLock
		rank string
	}
	all := make([]ranked, len(locks))
	for i, l := range locks {
		rank, err := rankOf(l)
		if err != nil {
			return nil, fmt.Errorf("lock %d: %w", i, bare{err})
		}
		all[i] = ranked{l, rank}
	}
	if !keep {
		slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	}
	ordered := make([]InterProcessLock, len(all))
	for i, r := range all {
		ordered[i] = r.lock
	}
	return ordered, nil
}

// rankOf returns what a lock is ordered by: its path as the servers know it.
func rankOf(l InterProcessLock) (string, error) {
	if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", fmt.Errorf("%w: it is nil", framework.ErrInvalidOption)
	}
	if r, ok := l.(interface{ rank() (string, error) }); ok {
		return r.rank()
	}
	return l.Path(), nil
}

// Acquire waits until it holds all the locks. ctx bounds the whole wait and not
// what comes after it. It stops at the first lock that it does not get, and gives
// those that it has back, in reverse order: however the call fails, it
// leaves no contender in any line. Once ctx is done it returns at once, and what
// is left to remove is removed in the background.
//
// It acquires each lock with a context of the leases before it. So it fails,
// wrapping [ErrLost] or [ErrRevoked], as soon as one of those ends while it
// waits for the next: unlike a single lock it does not join again, for what
// it had is not to be got back without another wait. And locks that are one
// lock re-enter, as they do with [Lease.Context].
//
// With a context of a [MultiLease] it re-enters all the locks which that has,
// and waits for the others; see there.
func (m *InterProcessMultiLock) Acquire(ctx context.Context) (*MultiLease, error) {
	return m.acquire(ctx, InterProcessLock.Acquire)
}

// TryAcquire is Acquire without the wait: it fails with [ErrHeld] if it does
// not get each lock at once. It does wait for a connection, as far as ctx and
// the clients' retry policies allow.
func (m *InterProcessMultiLock) TryAcquire(ctx context.Context) (*MultiLease, error) {
	return m.acquire(ctx, InterProcessLock.TryAcquire)
}

// Do acquires the locks, calls fn, and releases them when fn returns or panics.
// fn gets a context of the leases; it should return soon after that ends. The
// error is fn's, joined with the release's if there is one that fn's does not
// wrap. If a lease ended under fn, the error says so even if fn returned nil,
// since fn may have stopped early: it wraps [ErrLost], [ErrClosed] or
// [ErrRevoked].
func (m *InterProcessMultiLock) Do(ctx context.Context, fn func(ctx context.Context, lease *MultiLease) error) error {
	if m.err == nil && fn == nil {
		return fmt.Errorf("recipes: multi lock: %w: Do has no function", framework.ErrInvalidOption)
	}
	lease, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	return do(ctx, lease, fn)
}

// Explain explains the locks, one after the other, in the order in which they
// are acquired; there are no nodes of the multi lock's own. It stops at the
// first lock that it cannot explain, and returns only the error then: a lock of
// another package that has no Explain like that of [InterProcessMutex] is
// [framework.ErrInvalidOption].
func (m *InterProcessMultiLock) Explain(ctx context.Context) ([]Explanation, error) {
	if m.err != nil {
		return nil, m.err
	}
	all := make([]Explanation, len(m.locks))
	for i, l := range m.locks {
		var err error
		if all[i], err = explain(ctx, l); err != nil {
			return nil, fmt.Errorf("recipes: lock %d of %d: %w", i+1, len(m.locks), bare{err})
		}
	}
	return all, nil
}

// explain explains a lock, if it can.
func explain(ctx context.Context, l InterProcessLock) (Explanation, error) {
	x, ok := l.(interface {
		Explain(ctx context.Context) (Explanation, error)
	})
	if !ok {
		return Explanation{}, fmt.Errorf("%w: a %T has no Explain", framework.ErrInvalidOption, l)
	}
	return x.Explain(ctx)
}

func (m *InterProcessMultiLock) acquire(ctx context.Context,
	acquire func(InterProcessLock, context.Context) (*Lease, error),
) (lease *MultiLease, err error) {
	switch {
	case m.err != nil:
		return nil, m.err
	case len(m.locks) == 0: // the zero value, which would exclude nobody
		return nil, fmt.Errorf("recipes: multi lock: %w", errNoLocks)
	}
	leases := make([]*Lease, 0, len(m.locks))
	defer func() {
		if lease == nil { // also if a hook or a listener panics
			err = both(err, rollBack(ctx, leases))
		}
	}()
	base, cancel := context.WithCancel(ctx)
	defer cancel() // lets the holds forget the contexts
	work := base
	for i, l := range m.locks {
		got, err := acquire(l, work)
		if err == nil {
			leases = append(leases, got)
			work = got.Context(work)
			err = work.Err() // what came first may be lost by now
		}
		if err != nil {
			return nil, fmt.Errorf("recipes: lock %d of %d: %w", i+1, len(m.locks), bare{whyNot(ctx, work, err)})
		}
	}
	return newMultiLease(leases), nil
}

// whyNot returns why a lock was not got: err, unless that only says that work
// has ended, with ctx or with a lease that work is a context of.
func whyNot(ctx, work context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return withContext(ctx, err)
	case work.Err() != nil:
		return context.Cause(work)
	}
	return err
}

// rollBack gives back what was got before the failure. It does not wait for
// the deletions once ctx is done. The error says that a node stays.
func rollBack(ctx context.Context, leases []*Lease) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return releaseAll(leases, func(l *Lease) error {
		if err := l.release(ctx); errors.Is(err, errStays) {
			return err
		}
		return nil
	})
}

// releaseAll releases all of leases in reverse order, whatever comes of each:
// also if one panics. The errors are joined, the first one first.
func releaseAll(leases []*Lease, release func(*Lease) error) (err error) {
	if len(leases) == 0 {
		return nil
	}
	last := len(leases) - 1
	defer func() { err = both(err, releaseAll(leases[:last], release)) }()
	return release(leases[last])
}
