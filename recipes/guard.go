package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// An ownWatch is a watch on one's own node together with what the node held
// when it was set.
type ownWatch struct {
	*framework.Watch
	data  []byte
	mzxid int64
	// conn is the connection of the moment before the watch was set. While it
	// lasts, the server's events arrive in the order of their causes.
	conn context.Context
}

// watchOwn sets a watch on path, a node of session. The error is
// errNodeDeleted if there is no such node.
func (l *line) watchOwn(ctx context.Context, path string, session *framework.Session) (*ownWatch, error) {
	conn := session.ConnectionContext()
	data, stat, w, err := l.client.GetW(ctx, path)
	if says(ctx, err, framework.ErrNoNode) {
		return nil, errNodeDeleted
	}
	if err != nil {
		return nil, err
	}
	return &ownWatch{Watch: w, data: data, mzxid: stat.Mzxid, conn: conn}, nil
}

// guardPause is how long a hold's guard waits after it could not read the
// node, beyond what the client's retry policy has already waited.
const guardPause = time.Second

// guard watches the node of h, from own if that is set, and ends h when the
// node is gone. It passes on requests for revocation: after each event it
// sets the watch anew and looks at what the node holds then, so that no
// request is missed that comes in between. It runs until the node is gone,
// the session has ended, or unwatch was called.
func (h *hold) guard(own *ownWatch) {
	ctx, cancel := context.WithCancel(h.watching)
	defer context.AfterFunc(h.session.Context(), cancel)()
	defer cancel()

	var heard int64 // the Mzxid of the last request that was passed on
	for ctx.Err() == nil {
		if own == nil {
			var err error
			if own, err = h.line.watchOwn(ctx, h.path, h.session); err != nil {
				if !h.afterFailure(ctx, err) {
					return
				}
				continue
			}
		}
		if r, ok := parseRequest(own.data); ok && own.mzxid != heard {
			heard = own.mzxid
			h.revoked(r.heard(time.Now()))
		}
		select {
		case ev := <-own.Event():
			if ev.Type == framework.EventDeleted {
				h.nodeDeleted()
				return
			}
			own = nil
		case <-ctx.Done():
			own.Stop()
			return
		}
	}
	if own != nil {
		own.Stop()
	}
}

func (h *hold) nodeDeleted() {
	h.mu.Lock()
	foreign := h.leases > 0 // else it was the release
	h.taken = foreign
	h.mu.Unlock()
	err := h.lost(h.deletion())
	ended := h.end(err)
	if foreign && (errors.Is(ended, errNodeDeleted) || errors.Is(ended, ErrRevoked)) {
		h.line.logger().Warn("lock lost: somebody deleted its node", "node", h.path, "err", err)
	}
}

// deletion says why the node is gone, if it was not the release.
func (h *hold) deletion() error {
	if r, ok := h.revocation(); ok && r.Forced {
		return fmt.Errorf("forced, %v: %w", r, errNodeDeleted)
	}
	return errNodeDeleted
}

// afterFailure reports whether the guard is to try again after err.
func (h *hold) afterFailure(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, errNodeDeleted):
		h.nodeDeleted()
		return false
	case ctx.Err() != nil, errors.Is(err, ErrClosed), h.session.Err() != nil:
		return false
	case !framework.IsRetryable(err):
		h.line.logger().Warn("lock held unwatched: its node cannot be read", "node", h.path, "err", err)
		return false
	}
	t := time.NewTimer(guardPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// revoked passes on one request for revocation.
func (h *hold) revoked(r Revocation) {
	h.mu.Lock()
	h.request = &r
	h.mu.Unlock()
	if h.line.settings.endWhenRevoked {
		_ = h.end(fmt.Errorf("%w: %s: %v", ErrRevoked, h.path, r))
	}
	if f := h.line.settings.revocation; f != nil {
		h.line.client.Go(func() { f(h.first) })
	}
}

// revocation returns the last request that was heard.
func (h *hold) revocation() (Revocation, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.request == nil {
		return Revocation{}, false
	}
	return *h.request, true
}
