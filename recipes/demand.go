package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batonzk/baton/framework"
)

// A demand is for n permits, by one who is first in line. While he is, nobody
// else adds to the permits that are out.
type demand struct {
	*place
	permits *permits
	n       int
	granted Leases

	owners map[string]int64 // of the children of leases: their sessions, 0 of dead ones
}

// A view is what a request has seen when it looked for room.
type view struct {
	limit   counted
	out     int  // permits of the living
	ours    bool // all of them are of the demander's own session
	moved   *framework.Watch
	changed *framework.Watch // of a live limit
}

func (v *view) stop() {
	stop(v.moved)
	stop(v.changed)
}

// serve waits until there is room and takes the permits. It holds none of them
// before it has all.
func (d *demand) serve(ctx context.Context) error {
	d.ahead, d.behind = 0, Participant{} // nobody any more
	for watching := false; d.granted == nil; watching = true {
		if err := d.round(ctx, watching); err != nil {
			return err
		}
	}
	return nil
}

// round looks for room once. If there is none and it is watching, it waits
// until something has changed.
func (d *demand) round(ctx context.Context, watching bool) error {
	var v view
	defer v.stop() // also if a hook or a log handler panics
	if err := d.look(ctx, watching, &v); err != nil {
		return err
	}
	switch {
	case v.out+d.n <= v.limit.value:
		if err := d.claim(ctx); err != nil {
			return err
		}
		return d.take(ctx, &v)
	case d.try:
		return d.short(ErrHeld, &v)
	case !watching:
		return nil
	}
	if v.ours {
		d.permits.line.waitsForItself(d.permits.path)
	}
	d.tell(WaitJoined, nil)
	if _, err := d.hear(ctx, true, eventOf(v.moved), eventOf(v.changed)); err != nil {
		return d.short(err, &v)
	}
	return nil
}

// short adds to err how many permits were missing.
func (d *demand) short(err error, v *view) error {
	if errors.Is(err, errAgain) {
		return err
	}
	whose := ""
	if v.ours {
		whose = " (all by this client)"
	}
	return fmt.Errorf("%w: %sfirst in line, wants %d permits, %d of %d are out%s", bare{err}, d.waited(), d.n, v.out, v.limit.value, whose)
}

// look reads the limit and what is out.
func (d *demand) look(ctx context.Context, watching bool, v *view) error {
	err := d.persist(ctx, func() (err error) {
		v.limit, v.changed, err = d.permits.limit.read(ctx, watching)
		return err
	})
	if err := d.failure(ctx, err); err != nil {
		return err
	}
	var children []string
	err = d.persist(ctx, func() (err error) {
		children, v.moved, err = d.permits.line.children(ctx, watching)
		return err
	})
	if err := d.failure(ctx, err); err != nil {
		return err
	}
	return d.count(ctx, v, d.permits.line.contenders(children))
}

// count counts the permits that are out. Only if there seem to be too many it
// reads the nodes that it does not know yet, to leave out those that nobody
// alive owns.
func (d *demand) count(ctx context.Context, v *view, out []contender) error {
	v.out = len(out)
	if v.out+d.n <= v.limit.value {
		return nil
	}
	unknown := slices.DeleteFunc(slices.Clone(out), func(c contender) bool {
		_, known := d.owners[c.name]
		return known
	})
	var stats map[string]framework.Stat
	err := d.persist(ctx, func() (err error) {
		stats, err = d.permits.line.stats(ctx, unknown)
		return err
	})
	if err := d.failure(ctx, err); err != nil {
		return err
	}
	owners := make(map[string]int64, len(out)) // without those that have left
	own := 0
	v.out = 0
	for _, c := range out {
		owner, known := d.owners[c.name]
		if !known {
			stat, there := stats[c.name]
			if !there {
				continue // it has left
			}
			owner = stat.EphemeralOwner
		}
		owners[c.name] = owner
		switch owner {
		case 0:
			d.permits.line.report(c.name, "not counting a dead permit: its node is not ephemeral")
			continue
		case d.owner:
			own++
		}
		v.out++
	}
	d.owners, v.ours = owners, v.out > 0 && own == v.out
	return nil
}
