package framework

import (
	"context"
	"errors"

	"github.com/batonzk/baton/internal/wire"
)

// An Ancestor is a node on the way from the servers' root down to another.
type Ancestor struct {
	Path string // as the servers know it, see [Client.ServerPath]
	Data []byte
	Stat Stat
}

// Ancestors reads, in one round trip, the node at path and all nodes above it,
// also those above the namespace and the chroot, but not the servers' root. It
// returns them from the bottom up; what does not exist, or may not be read, is
// left out. It blocks as Get does.
func (c *Client) Ancestors(ctx context.Context, path string) ([]Ancestor, error) {
	o := operation{client: c, name: wire.OpGetData, path: path}
	if err := ValidatePath(path); err != nil {
		return nil, o.refuse(ctx, err)
	}
	var l lineage
	err := o.run(ctx, func(ctx context.Context, cn *conn) error {
		l = newLineage(c.absolute(path))
		if len(l.calls) == 0 {
			return nil
		}
		err := cn.roundTrip(ctx, l.calls...)
		if l.answered() {
			return l.err()
		}
		return err
	})
	return l.ancestors(), err
}

// A lineage is the reads of a node and of all above it.
type lineage struct {
	paths   []string
	calls   []*call
	replies []*wire.GetDataResponse
}

// newLineage returns the reads from an absolute path on upwards.
func newLineage(path string) lineage {
	var l lineage
	for ; path != "/"; path, _ = SplitPath(path) {
		r := &wire.GetDataResponse{}
		l.paths, l.replies = append(l.paths, path), append(l.replies, r)
		l.calls = append(l.calls, newCall(wire.OpGetData, &wire.PathWatchRequest{Path: path}, r))
	}
	return l
}

// answered reports whether all of the reads were.
func (l *lineage) answered() bool {
	for _, c := range l.calls {
		if !c.answered() {
			return false
		}
	}
	return true
}

// err returns the first error, of reads that are answered, that does not just
// hide a node.
func (l *lineage) err() error {
	for _, c := range l.calls {
		if err := c.outcome(); err != nil && !errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoAuth) {
			return err
		}
	}
	return nil
}

// ancestors returns what the reads, which are answered, have found.
func (l *lineage) ancestors() []Ancestor {
	var found []Ancestor
	for i, c := range l.calls {
		if c.answered() && c.err == nil {
			r := l.replies[i]
			found = append(found, Ancestor{Path: l.paths[i], Data: r.Data, Stat: fromWireStat(&r.Stat)})
		}
	}
	return found
}
