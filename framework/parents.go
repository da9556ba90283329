package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// aclFor asks the provider for the ACL of an absolute path. What lies above
// the chroot, and has no path below it, gets the root's.
func (k *core) aclFor(path string) []ACL {
	if k.chroot != "" && !isBelow(k.chroot, path) {
		return k.acl("/")
	}
	return k.acl(trimPrefix(k.chroot, path))
}

// isBelow reports whether path is dir or lies below it.
func isBelow(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

// A label is data for one node among those that are made as parents.
type label struct {
	path string // absolute, "" for none
	data []byte
}

// of returns what the node at path is to hold.
func (l label) of(path string) []byte {
	if l.path == path {
		return l.data
	}
	return []byte{}
}

// makeParents makes path and what is missing above it, and reports whether it
// has made anything. It works from the bottom up, so that a client without
// rights on the upper nodes need not touch them. A node that vanishes in
// between, as empty containers do, is not an error.
func (k *core) makeParents(ctx context.Context, c *conn, path string, labelled label) (made bool, err error) {
	var missing []string
	for ; path != "/"; path, _ = SplitPath(path) {
		err := k.makeParent(ctx, c, path, labelled.of(path))
		if errors.Is(err, ErrNoNode) {
			missing = append(missing, path)
			continue
		}
		made = err == nil
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return false, parentError(path, err)
		}
		break
	}
	for i := len(missing) - 1; i >= 0; i-- {
		err := k.makeParent(ctx, c, missing[i], labelled.of(missing[i]))
		if errors.Is(err, ErrNoNode) {
			return true, nil
		}
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return made, parentError(missing[i], err)
		}
		made = true
	}
	return made, nil
}

// parentError names the node that is not the one that the caller knows of.
func parentError(path string, err error) error {
	return fmt.Errorf("making the parent %s: %w", path, err)
}

func (k *core) makeParent(ctx context.Context, c *conn, path string, data []byte) error {
	mode := Container
	if k.plain.Load() {
		mode = Persistent
	}
	acl := k.aclFor(path)
	if err := validateACL(acl); err != nil {
		return err
	}
	op, request := mode.createRequest(path, data, acl, 0)
	err := c.roundTrip(ctx, newCall(op, request, &wire.Create2Response{}))
	if mode == Container && errors.Is(err, ErrUnimplemented) {
		k.logger.Info("the server has no containers: parents will be persistent")
		k.plain.Store(true)
		return k.makeParent(ctx, c, path, data)
	}
	return err
}
