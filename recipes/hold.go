package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/batonzk/baton/framework"
)

// A hold is a node whose turn has come, until it ends: what the leases of one
// grant have in common. It ends once, for one reason, and everything that
// depends on it ends before the call that found the reason returns.
//
// It ends by whoever notices first: the session's context, the guard that
// watches the node, a release, or a look at it.
type hold struct {
	node
	line     *line
	data     []byte
	marker   string // see [GraceAfterCrash], "" if there is none
	first    *Lease
	done     chan struct{}   // closed when err is set
	watching context.Context // the guard's, outlives done until the node is gone
	unwatch  context.CancelFunc

	// conn is the connection that the hold ends with, nil if it ends with the
	// session only.
	conn context.Context

	mu       sync.Mutex
	err      error                      // why it ended, nil while it has not
	leases   int                        // not yet released
	taken    bool                       // the node was deleted while there were leases
	request  *Revocation                // the last that was heard
	contexts map[*leaseContext]struct{} // does not change once err is set, nil when all are done
	detach   []func() bool              // undo what listens to session and connection
}

// heldKey is the key of a hold in a context. Views of one client are one
// owner: it is the root client's path that counts.
type heldKey struct {
	client *framework.Client
	path   string
	label  string // of the nodes: what it is held for
}

// A node is an ephemeral node that was made to hold something.
type node struct {
	path    string
	token   int64 // see [Lease.Token]
	session *framework.Session
}

// newHold makes a hold of n, a node of l's, with one lease, already ended if
// the session is.
func newHold(l *line, n node) *hold {
	var conn context.Context
	if l.settings.endWhenUnknown {
		conn = n.session.ConnectionContext()
	}
	h := &hold{
		node:     n,
		line:     l,
		data:     l.settings.data,
		conn:     conn,
		done:     make(chan struct{}),
		contexts: make(map[*leaseContext]struct{}),
		leases:   1,
	}
	h.watching, h.unwatch = context.WithCancel(context.Background())
	h.first = newLease(h, l)

	look := func() { _ = h.look() }
	detach := []func() bool{context.AfterFunc(h.session.Context(), look)}
	if conn != nil {
		detach = append(detach, context.AfterFunc(conn, look))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.detach = detach
	if h.err != nil {
		stopAll(detach)
	}
	return h
}

// look ends the hold if the session's deadline has passed, by the clock and
// not by a timer, or the connection's end is its end; and returns why the
// hold ended, nil if it has not.
func (h *hold) look() error {
	h.mu.Lock()
	ended := h.err != nil
	h.mu.Unlock()
	if ended {
		return h.end(nil)
	}
	switch err := h.sessionLoss(); {
	case err != nil:
		return h.end(err)
	case h.conn != nil && h.conn.Err() != nil:
		return h.end(h.lost(errSuspended))
	}
	return nil
}

// sessionLoss says how the session ended, nil if it has not.
func (h *hold) sessionLoss() error {
	err := h.session.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return fmt.Errorf("recipes: lease ended: %s: %w", h.path, err)
	}
	return h.lost(err)
}

// end ends the hold with err unless it has ended, and returns why it ended.
// Every context of the hold is done then, also if another goroutine has ended
// the hold and has not come to all of them: this one does the same work.
func (h *hold) end(err error) error {
	h.mu.Lock()
	if h.err == nil {
		h.err = err
		close(h.done)
	}
	err, contexts, detach := h.err, h.contexts, h.detach
	h.detach = nil
	h.mu.Unlock()

	stopAll(detach)
	if contexts == nil {
		return err
	}
	for c := range contexts { // nobody changes it any more
		c.end(err)
	}
	h.mu.Lock()
	h.contexts = nil
	h.mu.Unlock()
	return err
}

func stopAll(stops []func() bool) {
	for _, stop := range stops {
		stop()
	}
}

// attach lets c end with the hold. If the hold has ended it reports why
// instead.
func (h *hold) attach(c *leaseContext) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.contexts[c] = struct{}{}
	}
	return h.err
}

func (h *hold) forget(c *leaseContext) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		delete(h.contexts, c)
	}
}

// reenter returns another lease of the hold, asked of l, or why it has ended.
func (h *hold) reenter(l *line) (*Lease, error) {
	if err := h.look(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return nil, h.err
	case h.leases == 0:
		return nil, h.released()
	}
	h.leases++
	return newLease(h, l), nil
}

func (h *hold) released() error { return fmt.Errorf("%w: %s", ErrReleased, h.path) }

// release gives back one lease. The last one ends the hold and deletes its
// node. The error is the loss, if the hold was lost before.
func (h *hold) release(ctx context.Context) error {
	err := h.look()
	since := h.lossSince()
	h.mu.Lock()
	h.leases--
	last := h.leases == 0
	h.mu.Unlock()
	if last {
		err = h.end(h.released())
	}
	if since != nil && errors.Is(err, ErrRevoked) {
		err = since
	}
	if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) {
		if last {
			h.abandon(err)
		}
		return err
	}
	if !last {
		return nil
	}
	// The guard hears of the deletion before the delete is answered, so that
	// its watch is spent and need not be removed.
	defer h.unwatch()
	if err = h.giveUp(ctx); says(ctx, err, errNodeDeleted) {
		return h.lost(h.deletion())
	}
	return err
}

// lossSince says how a hold that has ended without a loss was lost before its
// last release, nil if it was not.
func (h *hold) lossSince() error {
	h.mu.Lock()
	leases, taken := h.leases, h.taken
	h.mu.Unlock()
	switch {
	case leases == 0:
		return nil
	case taken:
		return h.lost(h.deletion())
	}
	return h.sessionLoss()
}

// lost is the error of a hold that ended for the given reason.
func (h *hold) lost(why error) error { return fmt.Errorf("%w: %s: %w", ErrLost, h.path, why) }

// missing ends the hold, whose node is not there, and returns why it ended: it
// may have been released meanwhile.
func (h *hold) missing() error {
	if err := h.look(); err != nil {
		return err
	}
	return h.end(h.lost(errNodeDeleted))
}

// giveUp deletes what the hold has made, waiting as ctx allows, and for about as
// long as the session can still live without a connection. The marker goes first: whoever
// comes when the node is gone need not find it. What it stands for is over.
func (h *hold) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.session.Timeout())
	defer cancel()
	inSession, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(h.session.Context(), stop)()
	stays := h.line.unmark(inSession, h.marker)
	return both(h.line.delete(ctx, h.path, h.session), stays)
}

// abandon lets go of the node of a lost hold. Mostly it has gone, or goes with
// its session; but a hold that ended with the connection may be in a session
// that lives on. The marker stays: the hold has failed.
func (h *hold) abandon(err error) {
	deleting := !errors.Is(err, errNodeDeleted) && h.session.Err() == nil && h.line.client.Go(func() {
		defer h.unwatch()
		ctx, cancel := context.WithTimeout(context.Background(), h.session.Timeout())
		defer cancel()
		_ = h.line.delete(ctx, h.path, h.session)
	})
	if !deleting {
		h.unwatch()
	}
}
