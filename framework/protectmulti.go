package framework

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// A markedPart is a part of a multi that creates a protected node.
type markedPart struct {
	index     int
	parent    string // absolute
	mark      string
	ephemeral bool
}

// protect marks the node that part i of the multi creates.
func (m *multi) protect(i int, part wire.Op) error {
	r, ok := part.Request.(*wire.CreateRequest)
	if !ok {
		return fmt.Errorf("%w: a protected %v", ErrInvalidOption, part.Code)
	}
	mode := Mode(r.Flags)
	parent, name := SplitPath(r.Path)
	if name == "" && !mode.isSequential() {
		return fmt.Errorf("%w: %q has no name to protect", ErrInvalidPath, r.Path)
	}
	mark := newMark()
	r.Path = JoinPath(parent, mark+name)
	m.marked = append(m.marked, markedPart{index: i, parent: parent, mark: mark, ephemeral: mode.isEphemeral()})
	return nil
}

// findOwn looks for what an earlier try may have made. As all or none of a
// multi is executed, one node shows that it was. It is looked for in the same
// session only: nothing else tells of the parts that die with that.
func (m *multi) findOwn(ctx context.Context, c *conn) (bool, error) {
	if c.session != m.sentIn {
		return false, &finalError{fmt.Errorf("%w: it was the one in which the multi was sent", ErrSessionLost)}
	}
	paths, err := m.findMarked(ctx, c)
	if err != nil || len(paths) == 0 {
		return false, err
	}
	m.unknown, m.made = false, true
	m.outcome = make([]Result, len(m.parts))
	for i, path := range paths {
		m.outcome[i].Path = m.viewOf(i).relative(path)
	}
	return true, nil
}

// findMarked returns the absolute paths of the protected nodes that are there,
// by the index of the part that has made them.
func (m *multi) findMarked(ctx context.Context, c *conn) (map[int]string, error) {
	listed, paths := make(map[string][]string), make(map[int]string)
	for _, p := range m.marked {
		names, known := listed[p.parent]
		if !known {
			var err error
			if names, err = syncedChildren(ctx, c, p.parent); err != nil {
				return nil, err
			}
			listed[p.parent] = names
		}
		if path := withMark(p.parent, names, p.mark); path != "" {
			paths[p.index] = path
		}
	}
	return paths, nil
}

// cleanUp deletes, in the background, the protected nodes of a multi that was
// perhaps executed although it failed; see [creation.cleanUp] for why what is
// not found will not come.
func (m *multi) cleanUp() {
	only := m.sentIn
	for _, p := range m.marked {
		if !p.ephemeral {
			only = nil
		}
	}
	first := m.marked[0]
	m.client.core.background("remove "+JoinPath(first.parent, first.mark+"…"), only, func(ctx context.Context, c *conn) error {
		paths, err := m.findMarked(ctx, c)
		for _, path := range paths {
			if err == nil {
				err = deleteNode(ctx, c, path)
			}
		}
		return err
	})
}
