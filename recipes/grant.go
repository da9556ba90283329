package recipes

import (
	"context"
	"fmt"
	"sync"

	"github.com/batonzk/baton/framework"
)

// take takes the permits by one multi, which also leaves the line. As all or
// none of it is executed, it is only done if the place was still held and the
// limit still the one that was seen. If the limit was not, take returns without
// permits.
func (d *demand) take(ctx context.Context, v *view) error {
	paths, err := d.create(ctx, v)
	switch {
	case says(ctx, err, errLimitChanged):
		return nil
	case says(ctx, err, errNodeDeleted):
		d.gone = true
		return fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	case err != nil:
		return d.failure(ctx, err)
	}
	d.gone = true
	defer func() { // also if a hook or a log handler panics
		if d.granted == nil {
			d.giveBack(ctx, paths)
		}
	}()
	token, err := d.readToken(ctx, paths)
	if err != nil {
		return err
	}
	d.granted, err = d.hold(ctx, paths, token)
	return err
}

// create makes the permits' nodes and deletes the own one in the line. A reply
// that is lost costs nothing, as the nodes are found again by their marks. Only
// if there is no connection for longer than the client's retry policy says they
// are given up; the next multi then finds that the place is gone.
func (d *demand) create(ctx context.Context, v *view) ([]string, error) {
	leases := d.permits.line
	ops := d.permits.limit.checks(v.limit)
	checks := len(ops)
	lease := framework.CreateOp(framework.JoinPath(leases.path, leases.rule.label), leases.settings.data,
		framework.EphemeralSequential).Protected().WithParents()
	for range d.n {
		ops = append(ops, lease)
	}
	// Last, for whoever is next in line is not to be woken before the rest is done.
	ops = append(ops, framework.DeleteOp(d.path, framework.AnyVersion).Or(errNodeDeleted).In(d.session))

	var results []framework.Result
	err := d.persist(ctx, func() (err error) {
		results, err = leases.client.Multi(ctx, ops...)
		return err
	})
	if err != nil {
		return nil, err
	}
	paths := make([]string, 0, d.n)
	for _, made := range results[checks : checks+d.n] {
		if made.Path != "" { // else somebody has deleted it already
			paths = append(paths, made.Path)
		}
	}
	return paths, nil
}

// giveBack deletes the nodes of permits that nobody is to have. What of it the
// server refuses the log tells.
func (d *demand) giveBack(ctx context.Context, paths []string) {
	var deletions sync.WaitGroup
	for _, path := range paths {
		deletions.Go(func() { _ = d.permits.line.dismiss(ctx, d.session, path) })
	}
	deletions.Wait()
}

// readToken reads the transaction that has made all of the nodes: the reply to a
// multi does not tell it.
func (d *demand) readToken(ctx context.Context, paths []string) (int64, error) {
	for _, path := range paths {
		var stat framework.Stat
		err := d.persist(ctx, func() (err error) {
			stat, err = d.permits.line.client.Exists(ctx, path)
			return err
		})
		if !says(ctx, err, framework.ErrNoNode) {
			return stat.Czxid, d.failure(ctx, err)
		}
	}
	return 0, fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
}

// hold makes holds of the nodes. If any of them has ended before it began,
// there are none.
func (d *demand) hold(ctx context.Context, paths []string, token int64) (Leases, error) {
	if len(paths) < d.n {
		return nil, fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	}
	d.tell(WaitGranted, nil)
	leases := d.permits.line
	holds := make([]*hold, len(paths))
	for i, path := range paths {
		holds[i] = newHold(leases, node{path: path, token: token, session: d.session})
		holds[i].marker = d.marker
	}
	err := ctx.Err()
	for _, h := range holds {
		if err == nil {
			err = h.look() // last of all: what was granted in time may be late now
		}
	}
	if says(ctx, err, errSuspended) {
		err = fmt.Errorf("%w: %w", errAgain, errSuspended)
	}
	granted := make(Leases, len(holds))
	for i, h := range holds {
		if err == nil && !leases.client.Go(func() { h.guard(nil) }) {
			err = ErrClosed
		}
		granted[i] = h.first
	}
	if err == nil {
		d.marker = "" // the hold's now
		return granted, nil
	}
	for _, h := range holds {
		_ = h.end(err)
		h.unwatch()
	}
	return nil, d.failure(ctx, err)
}
