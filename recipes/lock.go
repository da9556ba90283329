package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batonzk/baton/framework"
)

// An InterProcessLock is any lock of this package, or one side of it: something
// that is held by a [Lease].
type InterProcessLock interface {
	// Acquire waits until it is the caller's turn, or ctx is done.
	Acquire(ctx context.Context) (*Lease, error)
	// TryAcquire fails with [ErrHeld] if it is not the caller's turn at once.
	TryAcquire(ctx context.Context) (*Lease, error)
	// Path returns the lock's path as it was given.
	Path() string
}

// A lock is what everything with one line has in common, and the part of it
// that users see: they find its methods at the type that embeds it.
type lock struct {
	what string // is locked, for messages
	path string
	line *line
	// enter returns a lease, of the hold that ctx carries or of a new one.
	enter func(ctx context.Context, try bool) (*Lease, error)
	err   error // why it cannot be used
}

// newLock returns a lock whose contenders stand in line at path. It does no
// I/O. If it cannot be used it has nothing but the reason.
func newLock(what string, client *framework.Client, path string, r *rule, s settings) lock {
	if err := validate(what, client, path, r, s); err != nil {
		return unusable(what, path, err)
	}
	line := newLine(client, path, r, s)
	return lock{what: what, path: path, line: line, enter: line.enter}
}

func unusable(what, path string, err error) lock {
	return lock{path: path, err: fmt.Errorf("recipes: %s %q: %w", what, path, err)}
}

// validate refuses what cannot be a lock.
func validate(what string, client *framework.Client, path string, r *rule, s settings) error {
	if s.err == nil && s.grace > 0 && len(r.closers) == 0 {
		s.err = fmt.Errorf("%w: GraceAfterCrash is not supported by a %s", framework.ErrInvalidOption, what)
	}
	return errors.Join(s.err, validateRoot(client, path))
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
		return fmt.Errorf("%w: %q cannot be a recipe's root", framework.ErrInvalidPath, path)
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
// ended. The locks that cannot be re-entered say so.
//
// A time without servers does not end the call, whatever the client's retry
// policy says, neither before it is in line nor later. A connection loss in line
// costs nothing, not even the place. If the session is lost while the call
// waits, it asks again in the next one, at the end of the line. What does end it
// is the answer of a server that makes no sense to ask again, such as
// [framework.ErrNoAuth], credentials that no server takes, and [ErrClosed].
func (l *lock) Acquire(ctx context.Context) (*Lease, error) { return l.acquire(ctx, false) }

// TryAcquire is Acquire without the wait: it fails with [ErrHeld] if it is
// not the caller's turn at once. It does wait for a connection, as far as ctx
// and the client's retry policy allow.
func (l *lock) TryAcquire(ctx context.Context) (*Lease, error) { return l.acquire(ctx, true) }

func (l *lock) acquire(ctx context.Context, try bool) (*Lease, error) {
	if l.err != nil {
		return nil, l.err
	}
	lease, err := l.enter(ctx, try)
	if err != nil {
		return nil, fmt.Errorf("recipes: acquire %s: %w", l.path, bare{err})
	}
	return lease, nil
}

// Do acquires the lock, calls fn, and releases the lock when fn returns or
// panics. fn gets a context of the lease; it should return soon after that
// ends. The error is fn's, joined with the release's if there is one that fn's
// does not wrap. If the lease ended under fn, the error says so even if fn
// returned nil, since fn may have stopped early: it wraps [ErrLost], [ErrClosed]
// or [ErrRevoked].
func (l *lock) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	if l.err == nil && fn == nil {
		return l.noFunction("Do")
	}
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return do(ctx, lease, fn)
}

func (l *lock) noFunction(call string) error {
	return fmt.Errorf("recipes: %s %q: %w: %s has no function", l.what, l.path, framework.ErrInvalidOption, call)
}

// A holding is what Do releases: one lease, or several.
type holding interface {
	Context(parent context.Context) context.Context
	Err() error
	Release() error
}

// do calls fn with what was acquired, and releases it.
func do[H holding](ctx context.Context, held H, fn func(ctx context.Context, held H) error) (err error) {
	defer func() {
		if revoked := held.Err(); errors.Is(revoked, ErrRevoked) {
			err = both(err, revoked)
		}
		err = both(err, held.Release())
	}()
	return fn(held.Context(ctx), held)
}

// Release is another spelling of [Lease.Release]. It fails with [ErrNotHeld]
// if lease is nil or another lock's.
func (l *lock) Release(lease *Lease) error {
	if l.err != nil {
		return l.err
	}
	if lease == nil || lease.hold == nil || lease.hold.line.key != l.line.key {
		return fmt.Errorf("%w: %s", ErrNotHeld, l.path)
	}
	return lease.Release()
}

// Path returns the lock's path as it was given.
func (l *lock) Path() string { return l.path }

// rank returns what locks are ordered by, or why this one cannot be used.
func (l *lock) rank() (string, error) {
	if l.err != nil {
		return "", l.err
	}
	return l.line.client.ServerPath(l.path), nil
}

// Participants returns who stands in line for this lock, in the line's order,
// holders first. Children of the lock's path that take no part are left out.
// If nobody is there it returns an empty slice.
//
// What it returns is what the server that the client is connected to knows;
// it may lag behind, and line and nodes are not read at one moment.
func (l *lock) Participants(ctx context.Context) ([]Participant, error) {
	ps, err := l.everybody(ctx)
	return slices.DeleteFunc(ps, func(p Participant) bool {
		_, ours := parseContender(l.line.rule.label, p.Name)
		return !ours
	}), err
}

// everybody is Participants with those who stand in the line for something else.
func (l *lock) everybody(ctx context.Context) ([]Participant, error) {
	if l.err != nil {
		return nil, l.err
	}
	ps, err := l.line.participants(ctx)
	if err != nil {
		return nil, fmt.Errorf("recipes: participants of %s: %w", l.path, withContext(ctx, err))
	}
	return ps, nil
}
