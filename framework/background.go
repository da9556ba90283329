package framework

import (
	"context"
	"errors"

	"github.com/batonzk/baton/internal/wire"
)

// background tries until it succeeds, or fails for good, or the client ends
// or, if only is not nil, that session.
func (k *core) background(what string, only *Session, try func(ctx context.Context, c *conn) error) {
	ctx := k.ctx
	if only != nil {
		ctx = only.ctx
	}
	k.spawn(func() {
		pauses := k.reconnect.Schedule()
		for {
			c, err := k.connected(ctx, only)
			if err == nil {
				err = try(ctx, c)
			}
			switch {
			case err == nil || ctx.Err() != nil || k.ctx.Err() != nil:
				return
			case !mayPass(err):
				k.logger.Warn("gave up in the background", "task", what, "err", err)
				return
			}
			k.logger.Debug("will try again in the background", "task", what, "err", err)
			sleep(ctx, nextPause(pauses))
		}
	})
}

// mayPass reports whether what failed with err can succeed later, with other
// servers or other rights.
func mayPass(err error) bool {
	return IsRetryable(err) || errors.Is(err, ErrAuthFailed) || errors.Is(err, ErrReadOnly)
}

// deleteNode deletes whatever version of a node. No node is no error.
func deleteNode(ctx context.Context, c *conn, path string) error {
	request := &wire.PathVersionRequest{Path: path, Version: AnyVersion}
	err := c.roundTrip(ctx, newCall(wire.OpDelete, request, &wire.Empty{}))
	if errors.Is(err, ErrNoNode) {
		return nil
	}
	return err
}
