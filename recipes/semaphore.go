package recipes

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// An InterProcessSemaphore is a lock that a limited number of contenders hold
// at a time, among all processes that use the same path of the same ensemble.
// Each holds a permit, which is a lease like any other, or several. It is fair:
// contenders are served in the order in which they asked, so that one who wants
// many permits is not passed by those who want one. Its nodes are those of
// Curator's InterProcessSemaphoreV2, with which it can be mixed.
//
// A context of a permit's lease is no re-entry: Acquire with it takes another
// permit, and may wait for itself if there are not enough.
//
// A permit is given back by its release or by the end of its session. Nobody
// holds permits while he waits for more of the same call: all are granted at
// once, or none. [Lease.Token] is larger for each later grant; permits that
// were granted together have the same. As several hold at a time, the largest
// token is not the only good one; [Lease.Check] tells.
//
// Foreign children of its nodes are ignored and dead permits are not counted;
// both are logged. Curator counts them, so keep the path for the semaphore
// alone. [Revoke] asks the holder of one permit, not one who waits in line.
//
// TryAcquire fails with [ErrHeld] if anybody is ahead in line, even one who
// only tries himself, or there are too few permits.
//
// It has no state of its own, as [InterProcessMutex] has none.
type InterProcessSemaphore struct{ permits }

// NewInterProcessSemaphore returns the semaphore at path, below which two
// containers are made when needed: locks, where contenders stand in line, and
// leases, where there is a node for each permit that is out. It does no I/O. A
// malformed path, limit or option is the error of every call that would do I/O.
func NewInterProcessSemaphore(client *framework.Client, path string, limit Limit, opts ...Option) *InterProcessSemaphore {
	s := &InterProcessSemaphore{newPermits("semaphore", client, path, limit, queueRule, newSettings(opts))}
	s.enter = s.enterOne
	return s
}

// AcquireN is Acquire for n permits: all at once, or none. It fails at once
// with [framework.ErrInvalidOption] if n is less than 1 or more than a fixed
// limit. If a live limit is less than n it waits until that is raised, and
// those behind it in line wait too.
func (s *InterProcessSemaphore) AcquireN(ctx context.Context, n int) (Leases, error) {
	return s.acquireN(ctx, n, false)
}

// TryAcquireN is TryAcquire for n permits, and fails as AcquireN does.
func (s *InterProcessSemaphore) TryAcquireN(ctx context.Context, n int) (Leases, error) {
	return s.acquireN(ctx, n, true)
}

// DoN is Do for n permits: it acquires them as AcquireN does, and releases those
// that fn has not. fn gets a context that ends with the first permit that ends,
// also if it is fn that releases it.
func (s *InterProcessSemaphore) DoN(ctx context.Context, n int, fn func(ctx context.Context, leases Leases) error) error {
	if s.err == nil && fn == nil {
		return s.noFunction("DoN")
	}
	leases, err := s.AcquireN(ctx, n)
	if err != nil {
		return err
	}
	return do(ctx, leases, fn)
}

func (s *InterProcessSemaphore) acquireN(ctx context.Context, n int, try bool) (Leases, error) {
	if s.err != nil {
		return nil, s.err
	}
	err := s.limit.admits(n)
	var leases Leases
	if err == nil {
		leases, err = s.take(ctx, n, try)
	}
	if err != nil {
		return nil, fmt.Errorf("recipes: acquire %d of %s: %w", n, s.path, bare{err})
	}
	return leases, nil
}
