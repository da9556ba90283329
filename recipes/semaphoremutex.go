package recipes

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// An InterProcessSemaphoreMutex is a lock that at most one contender holds at
// a time, like [InterProcessMutex], but that cannot be re-entered: Acquire with
// a context of its own lease fails at once with [ErrDeadlock], or with the
// lease's error if that has ended. Its nodes are those of Curator's
// InterProcessSemaphoreMutex, with which it can be mixed; an InterProcessMutex
// on the same path does not see it.
//
// Any goroutine may release it, as is the case with every [Lease].
//
// TryAcquire fails with [ErrHeld] as that of [InterProcessSemaphore] does. It
// has no state of its own, as [InterProcessMutex] has none.
type InterProcessSemaphoreMutex struct{ permits }

// NewInterProcessSemaphoreMutex returns the mutex at path, below which the
// nodes are those of an [InterProcessSemaphore] with a limit of 1. It does no
// I/O. A malformed path or option is the error of every call that would do I/O.
func NewInterProcessSemaphoreMutex(client *framework.Client, path string, opts ...Option) *InterProcessSemaphoreMutex {
	m := &InterProcessSemaphoreMutex{newPermits("semaphore mutex", client, path, FixedLimit(1), loneQueueRule, newSettings(opts))}
	m.enter = m.enterAnew
	return m
}

// enterAnew is enterOne for those who do not hold the lock.
func (m *InterProcessSemaphoreMutex) enterAnew(ctx context.Context, try bool) (*Lease, error) {
	if c, ok := m.line.carried(ctx); ok {
		if err := c.live(ctx); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: no re-entry, release it first: the context is of the lease of %s", ErrDeadlock, c.hold.path)
	}
	return m.enterOne(ctx, try)
}
