package recipes

import (
	"context"
	"errors"
	"sync"

	"github.com/batonzk/baton/framework"
)

// Leases are permits that were granted together. Each can be lost, revoked and
// released by itself. Their token is that of any of them.
//
// All methods are safe for concurrent use, and only Release blocks.
type Leases []*Lease

// Release releases all of them at once, as [Lease.Release] does, and returns
// what was wrong with any, in their order.
func (ls Leases) Release() (err error) {
	errs := make([]error, len(ls))
	var releases sync.WaitGroup
	for i, l := range ls {
		releases.Go(func() { errs[i] = l.Release() })
	}
	releases.Wait()
	for _, one := range errs {
		err = both(err, one)
	}
	return err
}

// Err returns nil while all of them are held or unknown. Then it says how one of
// them ended: the first in their order that was not released, or else the first
// that was. See [Lease.Err].
func (ls Leases) Err() error {
	var released error
	for _, l := range ls {
		switch err := l.Err(); {
		case err == nil:
		case !errors.Is(err, ErrReleased):
			return err
		case released == nil:
			released = err
		}
	}
	return released
}

// Checks returns the operations that make a [framework.Client.Multi] fail once
// one of the leases' nodes is gone; see [Lease.Check].
func (ls Leases) Checks() []framework.Op {
	checks := make([]framework.Op, len(ls))
	for i, l := range ls {
		checks[i] = l.Check()
	}
	return checks
}

// Context returns a context that ends when parent ends or the first of the
// leases does, and says how that ended; see [Lease.Context]. Its Done is for
// those who wait for the end of any.
func (ls Leases) Context(parent context.Context) context.Context {
	for _, l := range ls {
		parent = l.Context(parent)
	}
	return parent
}
