package framework

import (
	"context"
	"errors"
	"sync"

	"github.com/batonzk/baton/internal/wire"
)

// A hub holds a session's watches. For each node and kind the server has at
// most one watch of the session, however many waiters there are; and it has
// none for which there is no waiter.
//
// The server's watches are one-shot and die with the connection. On every new
// connection the hub reads what is watched again, which sets the watch anew
// and shows whether the change was missed.
//
// The lock order is hub.mu, then conn.mu: requests that set or remove watches
// are queued with hub.mu held, so that the server sees them in the order in
// which the hub decided them.
type hub struct {
	session *Session

	mu       sync.Mutex
	entries  map[watchKey]*watched
	removals map[watchKey]removal // under way, not answered yet
	clock    uint64               // counts removals
	ended    error                // set when the session is over
}

// watched is one node with at least one waiter.
type watched struct {
	waiters map[*Watch]struct{}
	armed   *conn // the connection on which the server holds the watch, nil if it holds none
}

// A removal is a request under way that takes the server's watch away.
type removal struct {
	conn *conn
	at   uint64 // hub.clock
}

func newHub(s *Session) *hub {
	return &hub{
		session:  s,
		entries:  make(map[watchKey]*watched),
		removals: make(map[watchKey]removal),
	}
}

// A watchRead is a read that sets the server's watch. It does so even if the
// server holds it already, which changes nothing there: so from the answer on
// the watch is known to stand, whatever became of an earlier one.
type watchRead struct {
	key  watchKey
	call *call
	// version says what the reply saw of an existing node.
	version func() version
	// missingToo: the operation sets a watch also on a node that does not
	// exist, as exists does.
	missingToo bool
	sentAt     uint64 // hub.clock
}

// read sends r and returns a waiter for the next change. The waiter is there
// before the request is sent, so that no event can fall in between. That there
// is no node is no error if the operation watches missing nodes.
func (h *hub) read(ctx context.Context, c *conn, view *Client, r watchRead) (*Watch, error) {
	w := &Watch{hub: h, key: r.key, view: view, event: make(chan Event, 1)}
	err := c.inFlight(ctx, r.call, func() error { return h.submit(c, w, r) })
	if err == nil {
		err = r.call.await(ctx, h.session.core)
	}
	if err == nil || r.missingToo && errors.Is(err, ErrNoNode) {
		return w, nil
	}
	h.leave(w)
	return nil, err
}

// submit sends r with w among the waiters or, if w is nil, for those that are
// there.
func (h *hub) submit(c *conn, w *Watch, r watchRead) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.submitLocked(c, w, r)
}

func (h *hub) submitLocked(c *conn, w *Watch, r watchRead) error {
	if h.ended != nil {
		return h.ended
	}
	e := h.entries[r.key]
	if e == nil {
		if w == nil {
			return nil // they have all left
		}
		e = &watched{waiters: make(map[*Watch]struct{})}
		h.entries[r.key] = e
	}
	if w != nil {
		e.waiters[w] = struct{}{}
	}
	r.sentAt = h.clock
	r.call.onReply = func(*call) { h.replied(c, w, r) }
	return c.submit(r.call)
}

// replied runs in the receive path.
func (h *hub) replied(c *conn, w *Watch, r watchRead) {
	var now version
	key, code := r.key, r.call.code
	set := code == wire.CodeOK || code == wire.CodeNoNode && r.missingToo
	if code == wire.CodeOK {
		now = r.version()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if gone, ok := h.removals[key]; ok && gone.conn == c && gone.at > r.sentAt {
		set = false // and taken away again behind this read
	}
	e := h.entries[key]
	switch {
	case e == nil:
		if set {
			h.disarm(c, key)
		}
		return
	case code == wire.CodeOK || code == wire.CodeNoNode:
		if w != nil {
			w.seen, w.read = now, true
		}
		e.compare(now, key.kind)
	case w == nil:
		e.wake(key.kind.changed()) // they cannot be served: each must look for itself
	}
	if set {
		e.armed = c
	}
	h.drop(key, e)
}

// compare wakes those whose read saw something else than now.
func (e *watched) compare(now version, kind watchKind) {
	for w := range e.waiters {
		if t := w.seen.change(now, kind); w.read && t != 0 {
			w.deliver(t, nil)
			delete(e.waiters, w)
		}
	}
}

// wake delivers t to all waiters whose read is done, and reports whether one
// of them is left: a deletion is nothing to one that saw no node. A change that
// comes before the answer to a read is one that the read has seen.
func (e *watched) wake(t EventType) (left bool) {
	for w := range e.waiters {
		switch {
		case !w.read:
		case t == EventDeleted && !w.seen.exists:
			left = true
		default:
			w.deliver(t, nil)
			delete(e.waiters, w)
		}
	}
	return left
}

// drop forgets an entry without waiters. It is called with h.mu held.
func (h *hub) drop(key watchKey, e *watched) {
	if len(e.waiters) > 0 {
		return
	}
	delete(h.entries, key)
	if e.armed != nil {
		h.disarm(e.armed, key)
	}
}

// disarm removes the server's watch, if the connection still stands. Nobody
// waits for the answer. It is called with h.mu held.
func (h *hub) disarm(c *conn, key watchKey) {
	kind := wire.WatcherData
	if key.kind == watchChildren {
		kind = wire.WatcherChildren
	}
	h.clock++
	r := removal{c, h.clock}
	request := &wire.WatchTypeRequest{Path: key.path, Type: kind}
	away := newCall(wire.OpRemoveWatches, request, &wire.Empty{})
	away.onReply = func(*call) { h.removed(key, r) }
	if c.submit(away) == nil {
		h.removals[key] = r
	}
}

// removed runs in the receive path. What was read before the removal has been
// answered too by now.
func (h *hub) removed(key watchKey, r removal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.removals[key] == r {
		delete(h.removals, key)
	}
}

func (h *hub) leave(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[w.key]
	if e == nil {
		return
	}
	if _, ok := e.waiters[w]; !ok {
		return
	}
	delete(e.waiters, w)
	h.drop(w.key, e)
}

// dispatch runs in the receive path.
func (h *hub) dispatch(c *conn, ev *wire.WatcherEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ev.Type {
	case wire.EventNodeCreated:
		h.fire(c, watchKey{ev.Path, watchData}, EventCreated)
	case wire.EventNodeDataChanged:
		h.fire(c, watchKey{ev.Path, watchData}, EventDataChanged)
	case wire.EventNodeChildrenChanged:
		h.fire(c, watchKey{ev.Path, watchChildren}, EventChildrenChanged)
	case wire.EventNodeDeleted:
		h.fire(c, watchKey{ev.Path, watchData}, EventDeleted)
		h.fire(c, watchKey{ev.Path, watchChildren}, EventDeleted)
	}
}

func (h *hub) fire(c *conn, key watchKey, t EventType) {
	e := h.entries[key]
	if e == nil {
		return
	}
	e.armed = nil
	if e.wake(t) {
		_ = h.submitLocked(c, nil, rearmRead(key))
	}
	h.drop(key, e)
}

// rearm reads all that is watched on a new connection of the session.
func (h *hub) rearm(c *conn) {
	h.mu.Lock()
	for key, r := range h.removals {
		if r.conn != c {
			delete(h.removals, key) // will not be answered
		}
	}
	keys := make([]watchKey, 0, len(h.entries))
	for key, e := range h.entries {
		if e.armed != c {
			keys = append(keys, key)
		}
	}
	h.mu.Unlock()
	for _, key := range keys {
		if err := h.submit(c, nil, rearmRead(key)); err != nil {
			return // the connection is gone: the next one does it
		}
	}
}

// rearmRead asks no more than is needed: exists for a node's data.
func rearmRead(key watchKey) watchRead {
	if key.kind == watchChildren {
		return childrenRead(key.path, new(wire.GetChildren2Response))
	}
	return existsRead(key.path, new(wire.StatResponse))
}

func existsRead(path string, reply *wire.StatResponse) watchRead {
	r := newWatchRead(wire.OpExists, path, watchData, reply)
	r.version = func() version { return dataVersion(&reply.Stat) }
	r.missingToo = true
	return r
}

func dataRead(path string, reply *wire.GetDataResponse) watchRead {
	r := newWatchRead(wire.OpGetData, path, watchData, reply)
	r.version = func() version { return dataVersion(&reply.Stat) }
	return r
}

func childrenRead(path string, reply *wire.GetChildren2Response) watchRead {
	r := newWatchRead(wire.OpGetChildren2, path, watchChildren, reply)
	r.version = func() version { return childrenVersion(&reply.Stat) }
	return r
}

func newWatchRead(op wire.OpCode, path string, kind watchKind, reply wire.Record) watchRead {
	request := &wire.PathWatchRequest{Path: path, Watch: true}
	return watchRead{key: watchKey{path, kind}, call: newCall(op, request, reply)}
}

// end tells every waiter that the session is over.
func (h *hub) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = cause
	for _, e := range h.entries {
		for w := range e.waiters {
			w.deliver(EventSessionEnded, cause)
		}
	}
	h.entries, h.removals = nil, make(map[watchKey]removal)
}
