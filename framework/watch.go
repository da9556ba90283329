package framework

import "github.com/batonzk/baton/internal/wire"

// An EventType says what happened to a watched node.
type EventType int

// The events of a [Watch].
const (
	EventCreated         EventType = iota + 1 // there was no node, and now there is
	EventDeleted                              // the node that was read is gone
	EventDataChanged                          // somebody has set the node's data
	EventChildrenChanged                      // a child was created or deleted
	// EventSessionEnded: the session is over, and the watch with it. What
	// happened to the node is not known.
	EventSessionEnded
)

// String returns the type's name.
func (t EventType) String() string {
	switch t {
	case EventCreated:
		return "created"
	case EventDeleted:
		return "deleted"
	case EventDataChanged:
		return "data changed"
	case EventChildrenChanged:
		return "children changed"
	case EventSessionEnded:
		return "session ended"
	}
	return "unknown event"
}

// An Event is what a [Watch] was set for.
type Event struct {
	Type EventType
	Path string // relative to the namespace of the client that set the watch
	Err  error  // for EventSessionEnded: wraps [ErrSessionLost] or [ErrClosed]
}

// A Watch waits for the next change of one node: of its data and existence
// after [Client.GetW] and [Client.ExistsW], of its set of children and
// existence after [Client.ChildrenW].
//
// It delivers one event, at the first change after the read that set it, and
// is then spent. A broken connection costs nothing: when the session goes on,
// the node is read again, and the event delivered if it has changed. A deletion
// is reported only if the node that was read is gone, though one of the same
// name may have been created since. A change is reported too when the server
// refuses that reading again, for want of rights for example.
//
// On one connection the events of a session arrive in the order of the
// changes. What was missed while there was no connection arrives in no order.
//
// A Watch that is no longer wanted must be stopped.
type Watch struct {
	hub   *hub
	key   watchKey
	view  *Client
	event chan Event

	// The following are guarded by hub.mu.
	seen version // what its read saw
	read bool    // whether seen is set
}

// Event returns the channel on which the event arrives. It is never closed, and
// nothing is sent on it after Stop.
func (w *Watch) Event() <-chan Event { return w.event }

// Stop ends the watch; an event that was not received yet may be lost. It
// does not block, and may be called again. The server's own watch is removed
// if nobody else in this client waits for the same node.
func (w *Watch) Stop() { w.hub.leave(w) }

// deliver is called with hub.mu held, once, when the watch stops being one of
// the waiters. The channel has room for the event.
func (w *Watch) deliver(t EventType, err error) {
	w.event <- Event{Type: t, Path: w.view.relative(w.key.path), Err: err}
}

// watchKind tells apart the two tables of watches that a server has: exists
// and getData share one.
type watchKind int

const (
	watchData watchKind = iota
	watchChildren
)

// changed is the event that makes a waiter look again.
func (k watchKind) changed() EventType {
	if k == watchChildren {
		return EventChildrenChanged
	}
	return EventDataChanged
}

type watchKey struct {
	path string // full
	kind watchKind
}

// version is what a read saw of a node, as far as its kind of watch cares.
type version struct {
	exists bool
	czxid  int64
	zxid   int64 // mzxid or pzxid
}

func dataVersion(s *wire.Stat) version     { return version{true, s.Czxid, s.Mzxid} }
func childrenVersion(s *wire.Stat) version { return version{true, s.Czxid, s.Pzxid} }

// change returns the event that leads from v to now, 0 for none.
func (v version) change(now version, kind watchKind) EventType {
	switch {
	case v == now:
		return 0
	case !v.exists:
		return EventCreated
	case !now.exists || v.czxid != now.czxid:
		return EventDeleted
	}
	return kind.changed()
}
