package framework

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// newMark returns the mark of a protected node: _c_, a random UUID in its
// canonical form, a hyphen; 40 characters, as Apache Curator makes it.
func newMark() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x-", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// findOwn looks for the node that an earlier try may have made, and adopts it.
func (cr *creation) findOwn(ctx context.Context, c *conn) (bool, error) {
	path, names, err := findMarked(ctx, c, cr.parent, cr.mark)
	if err != nil || path == "" {
		return false, err
	}
	var r wire.StatResponse
	err = c.roundTrip(ctx, newCall(wire.OpExists, &wire.PathWatchRequest{Path: path}, &r))
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cr.succeed(c, path, &r.Stat)
	if cr.ancestors != nil {
		return true, cr.list(ctx, c)
	}
	if cr.siblings != nil {
		*cr.siblings = names
	}
	return true, nil
}

// findMarked returns the path of the child of parent that carries mark, ""
// if there is none, and the names of all children. The sync makes sure that a
// create that was executed is seen, whichever server answers.
func findMarked(ctx context.Context, c *conn, parent, mark string) (path string, names []string, err error) {
	names, err = syncedChildren(ctx, c, parent)
	return withMark(parent, names, mark), names, err
}

// syncedChildren lists the children of parent as of now, whichever server
// answers; none if there is no parent.
func syncedChildren(ctx context.Context, c *conn, parent string) ([]string, error) {
	var list wire.GetChildren2Response
	err := c.roundTrip(ctx,
		newCall(wire.OpSync, &wire.PathRequest{Path: parent}, &wire.PathRequest{}),
		newCall(wire.OpGetChildren2, &wire.PathWatchRequest{Path: parent}, &list))
	if errors.Is(err, ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err // a late reply may still be read into list
	}
	return list.Children, nil
}

// withMark returns the path of that one of parent's children which carries
// mark, "" if there is none.
func withMark(parent string, names []string, mark string) string {
	for _, name := range names {
		if strings.HasPrefix(name, mark) {
			return JoinPath(parent, name)
		}
	}
	return ""
}

// cleanUp deletes, in the background, the node that a create has perhaps
// made although it failed. Requests of one session are executed in the order
// they are sent, and a create that still hangs in a broken connection is not
// executed once the session has moved on to the next: so what is not there
// after a sync will not come.
func (cr *creation) cleanUp() {
	var only *Session
	if cr.mode.isEphemeral() {
		only = cr.sentIn
	}
	k := cr.client.core
	if cr.made {
		path := cr.client.absolute(cr.result.Path)
		k.background("remove "+path, only, func(ctx context.Context, c *conn) error {
			return deleteNode(ctx, c, path)
		})
		return
	}
	parent, mark := cr.parent, cr.mark
	k.background("remove "+JoinPath(parent, mark+"…"), only, func(ctx context.Context, c *conn) error {
		path, _, err := findMarked(ctx, c, parent, mark)
		if err != nil || path == "" {
			return err
		}
		return deleteNode(ctx, c, path)
	})
}
