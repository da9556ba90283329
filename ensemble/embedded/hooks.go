package embedded

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batonzk/baton/internal/wire"
)

// A Request is what a hook is shown of a client's request.
type Request struct {
	Session int64    // the session that sent it
	Xid     int32    // the client's number for it
	Op      string   // ZooKeeper's name of the operation: "create2", "getData", "multi", "ping", …
	Path    string   // the path in it; "" if it has none, or several
	Paths   []string // the paths of a multi, in order; else nil
	Flags   int32    // the mode of a create
	Watch   bool     // a read that leaves a watch

	// Done is closed when the server ends the connection that sent the request,
	// or is itself closed. That the client has gone is not noticed while a hook
	// holds one of its requests.
	Done <-chan struct{}
}

// A Verdict is what a hook makes of a request. Besides the constants there is
// [Answer].
type Verdict int32

const (
	// Pass lets the request, or its reply, go on.
	Pass Verdict = 0
	// Cut closes the connection: before the request is carried out, or after
	// it was, without a reply.
	Cut Verdict = 1
	// Drop swallows the request before it is carried out, or its reply after
	// it was. The connection stays.
	Drop Verdict = 2
)

// Answer is the verdict that the client gets the error with this code, one of
// ZooKeeper's and so negative, such as -101 for NoNode. From OnRequest the
// request is not carried out; from OnReply it was. A code that is not negative
// is the same as [Pass].
func Answer(code int32) Verdict { return Verdict(min(code, 0)) }

// A hook is one function that OnRequest or OnReply was given.
type hook struct{ f func(Request) Verdict }

// A hookList is a list that is read often and changed seldom.
type hookList struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*hook]
}

type hooks struct{ request, reply hookList }

func (l *hookList) add(h *hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append(slices.Clone(l.get()), h)
	l.list.Store(&list)
}

// remove takes h away and reports whether it was there.
func (l *hookList) remove(h *hook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.Clone(l.get())
	i := slices.Index(list, h)
	if i < 0 {
		return false
	}
	list = slices.Delete(list, i, i+1)
	l.list.Store(&list)
	return true
}

func (l *hookList) get() []*hook {
	if p := l.list.Load(); p != nil {
		return *p
	}
	return nil
}

// hook adds f and returns what takes it away again.
func (l *hookList) hook(f func(Request) Verdict) (remove func()) {
	h := &hook{f}
	l.add(h)
	return func() { l.remove(h) }
}

// once adds a hook that cuts the first request that match takes.
func (l *hookList) once(match func(Request) bool) <-chan struct{} {
	happened := make(chan struct{})
	h := new(hook)
	h.f = func(r Request) Verdict {
		if !match(r) || !l.remove(h) {
			return Pass
		}
		close(happened)
		return Cut
	}
	l.add(h)
	return happened
}

// ask returns the first verdict other than Pass.
func ask(list []*hook, r Request) Verdict {
	for _, h := range list {
		if v := h.f(r); v != Pass {
			return v
		}
	}
	return Pass
}

// OnRequest has f called for each request before it is carried out, until
// remove is called. Hooks are asked in the order in which they were added and
// the first verdict other than [Pass] counts. f runs in the goroutine that
// reads the connection, with no lock held: it may block, which holds this
// connection's requests and nothing else, and it may use the server, but not
// Close it. If the session has moved to another connection, or has ended,
// when f returns, the request is not carried out. Connecting is no request;
// pings, auth and closeSession are.
func (s *Server) OnRequest(f func(Request) Verdict) (remove func()) { return s.hooks.request.hook(f) }

// OnReply has f called for each request after it was carried out and before
// its reply is sent, until remove is called. While f blocks, replies and watch
// events of later transactions wait behind the reply; those of earlier ones
// may already be with the client. Else it is as [Server.OnRequest].
func (s *Server) OnReply(f func(Request) Verdict) (remove func()) { return s.hooks.reply.hook(f) }

// CutBefore closes the connection that sends the next request for which match
// is true, before the request is carried out. The channel is closed when that
// has happened. match must not block.
func (s *Server) CutBefore(match func(Request) bool) <-chan struct{} {
	return s.hooks.request.once(match)
}

// LoseReply carries out the next request for which match is true and closes
// its connection without a reply: the client cannot know what became of it.
// The channel is closed when that has happened. match must not block.
func (s *Server) LoseReply(match func(Request) bool) <-chan struct{} {
	return s.hooks.reply.once(match)
}

// describe returns what hooks are shown of a request.
func (c *conn) describe(h *wire.RequestHeader, record wire.Record) Request {
	r := Request{Session: c.sid.Load(), Xid: h.Xid, Op: h.Op.String(), Done: c.done}
	if m, ok := record.(*wire.MultiRequest); ok {
		for _, op := range m.Ops {
			var part Request
			part.fill(op.Request)
			r.Paths = append(r.Paths, part.Path)
		}
		return r
	}
	r.fill(record)
	return r
}

// fill takes path, flags and watch out of a request's record.
func (r *Request) fill(record wire.Record) {
	switch q := record.(type) {
	case *wire.CreateRequest:
		r.Path, r.Flags = q.Path, q.Flags
	case *wire.CreateTTLRequest:
		r.Path, r.Flags = q.Path, q.Flags
	case *wire.PathVersionRequest:
		r.Path = q.Path
	case *wire.PathWatchRequest:
		r.Path, r.Watch = q.Path, q.Watch
	case *wire.PathRequest:
		r.Path = q.Path
	case *wire.SetDataRequest:
		r.Path = q.Path
	case *wire.SetACLRequest:
		r.Path = q.Path
	case *wire.WatchTypeRequest:
		r.Path = q.Path
	}
}
