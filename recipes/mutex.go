package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// An InterProcessMutex is a lock that at most one contender holds at a time,
// among all processes that use the same path of the same ensemble. It is
// fair: contenders get it in the order in which they asked. Its nodes are
// those of Curator's InterProcessMutex, with which it can be mixed.
//
// It has no state of its own: it can be shared by any number of goroutines
// and used again after whatever happened to a lease. Two goroutines exclude
// each other as two processes do, unless one passes on a context of its lease;
// see [Lease.Context].
type InterProcessMutex struct {
	path string
	line *line
	err  error // why it cannot be used
}

// mutexRule lets one contender in, the first.
var mutexRule = rule{
	label:   "lock-",
	blocker: func(_ []contender, own int) int { return own - 1 },
}

// NewInterProcessMutex returns the mutex at path, which is the parent of the
// contenders' nodes and is made as a container when needed. It does no I/O. A
// malformed path or option is the error of every call that would do I/O.
func NewInterProcessMutex(client *framework.Client, path string, opts ...Option) *InterProcessMutex {
	s := newSettings(opts)
	err := s.err
	if err == nil {
		err = validateRoot(client, path)
	}
	if err != nil {
		return &InterProcessMutex{path: path, err: fmt.Errorf("recipes: mutex %q: %w", path, err)}
	}
	return &InterProcessMutex{path: path, line: newLine(client, path, mutexRule, s)}
}

// validateRoot refuses what cannot be the root of a line.
func validateRoot(client *framework.Client, path string) error {
	if client == nil {
		return fmt.Errorf("%w: client is nil", framework.ErrInvalidOption)
	}
	if err := framework.ValidatePath(path); err != nil {
		return err
	}
	if path == "/" {
		return fmt.Errorf("%w: %q cannot be a lock", framework.ErrInvalidPath, path)
	}
	return nil
}

// Acquire waits until it is the caller's turn to hold the lock. ctx bounds the
// wait and not what comes after it; a ctx that is done fails even if the lock
// is free. However the call fails, it leaves no contender in the line; once ctx
// is done it returns at once, and the contender is removed in the background.
//
// With a context of a lease of this lock (see [Lease.Context]) it returns at
// once another lease of the same hold, or the lease's error if that has
// ended.
//
// A time without servers does not end the call, whatever the client's retry
// policy says, neither before it is in line nor later. A connection loss in line
// costs nothing, not even the place. If the session is lost while the call
// waits, it asks again in the next one, at the end of the line. What does end it
// is the answer of a server that makes no sense to ask again, such as
// [framework.ErrNoAuth], credentials that no server takes, and [ErrClosed].
func (m *InterProcessMutex) Acquire(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, false)
}

// TryAcquire is Acquire without the wait: it fails with [ErrHeld] if it is
// not the caller's turn at once. It does wait for a connection, as far as ctx
// and the client's retry policy allow.
func (m *InterProcessMutex) TryAcquire(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, true)
}

func (m *InterProcessMutex) acquire(ctx context.Context, try bool) (*Lease, error) {
	if m.err != nil {
		return nil, m.err
	}
	lease, err := m.line.enter(ctx, try)
	if err != nil {
		return nil, fmt.Errorf("recipes: acquire %s: %w", m.line.path, bare{err})
	}
	return lease, nil
}

// Do acquires the lock, calls fn, and releases the lock when fn returns or
// panics. fn gets a context of the lease; it should return soon after that
// ends. The error is fn's, joined with the release's if there is one that fn's
// does not wrap. If the lease ended under fn, the error says so even if fn
// returned nil, since fn may have stopped early: it wraps [ErrLost], [ErrClosed]
// or [ErrRevoked].
func (m *InterProcessMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (err error) {
	if m.err == nil && fn == nil {
		return fmt.Errorf("recipes: mutex %q: %w: Do has no function", m.path, framework.ErrInvalidOption)
	}
	lease, err := m.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if revoked := lease.Err(); errors.Is(revoked, ErrRevoked) {
			err = both(err, revoked)
		}
		err = both(err, lease.Release())
	}()
	return fn(lease.Context(ctx), lease)
}

// Release is another spelling of [Lease.Release]. It fails with [ErrNotHeld]
// if lease is nil or another lock's.
func (m *InterProcessMutex) Release(lease *Lease) error {
	if m.err != nil {
		return m.err
	}
	if lease == nil || lease.hold == nil || lease.hold.line.key != m.line.key {
		return fmt.Errorf("%w: %s", ErrNotHeld, m.line.path)
	}
	return lease.Release()
}

// Path returns the mutex's path as it was given.
func (m *InterProcessMutex) Path() string { return m.path }
