package embedded_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/batonzk/baton/internal/wire"
)

// A script is a text of lines "session operation arguments". Sessions connect
// when they are first named. Each line yields what came back, on lines that
// begin with "<": first to the session that asked, then to all others, in the
// order of their names. Sessions are shown by name and transactions as counted
// from the first connect, so that the output is the same on any server.
//
// Besides the operations there are
//
//	connect MILLIS                a session with that timeout, and no pings later
//	resume [wrong|ahead|readonly] connect again to the session
//	await                         show the next event, or the end of the connection
//	raw HEX                       send a frame with this body, show what comes back
//
// and several operations on one line, with "&" between them, are sent at once.
//
// A script is one script that runs.
type script struct {
	t       testing.TB
	dial    func() net.Conn
	clients map[string]*client
	muted   map[string]bool  // sessions that shall not be kept alive
	lazy    bool             // show what other sessions get when they next ask
	names   map[int64]string // of sessions
	base    int64            // zxid after the first connect
	out     strings.Builder
}

func newScript(t testing.TB, dial func() net.Conn) *script {
	return &script{t: t, dial: dial, clients: map[string]*client{}, muted: map[string]bool{}, names: map[int64]string{}}
}

// superDigest is that of a superuser whose password is "secret".
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// run carries out a whole script and cleans up. Answers in text are ignored.
func (s *script) run(text string) string {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "<") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		s.step(strings.Fields(line))
	}
	s.cleanUp()
	return s.out.String()
}

// line carries out one line and returns what came back.
func (s *script) line(text string) string {
	s.out.Reset()
	s.step(strings.Fields(text))
	return s.out.String()
}

func (s *script) print(format string, args ...any) { fmt.Fprintf(&s.out, "< "+format+"\n", args...) }

// step carries out one line and prints what came back to each session.
func (s *script) step(words []string) {
	name, op, args := words[0], words[1], words[2:]
	if op == "connect" {
		s.connect(name, s.num(args[0]))
		return
	}
	c := s.clients[name]
	if c == nil {
		c = s.open(name, 10_000)
	}
	switch op {
	case "resume":
		s.resume(name, c, args)
	case "await":
		s.await(name, c)
	case "raw":
		s.raw(name, c, args)
	default:
		s.request(name, c, words[1:])
	}
	for _, other := range slices.Sorted(maps.Keys(s.clients)) {
		if !s.lazy || other == name && op == "closeSession" {
			s.drain(other)
		}
	}
}

// open starts a session.
func (s *script) open(name string, millis int32) *client {
	c := wrap(s.t, s.dial()).open(&wire.ConnectRequest{TimeoutMillis: millis, Password: make([]byte, 16), HasReadOnly: true})
	c.careless = true
	s.clients[name] = c
	s.names[c.session.SessionID] = name
	c.ok(wire.OpPing, new(wire.Empty), nil)
	if s.base == 0 {
		s.base = c.zxid
	}
	return c
}

// connect starts a session that is not kept alive.
func (s *script) connect(name string, millis int32) {
	c := s.open(name, millis)
	s.muted[name] = true
	s.print("timeout %d", c.session.TimeoutMillis)
}

// await shows the next that comes without being asked for.
func (s *script) await(name string, c *client) {
	s.muted[name] = true
	if e, ok := c.event(); ok {
		s.print("%s", show([]wire.WatcherEvent{e}))
		return
	}
	s.print("closed")
	s.end(name)
}

// raw sends any bytes as one frame, and shows the next frame as it is but for
// the transaction number.
func (s *script) raw(name string, c *client, args []string) {
	body, err := hex.DecodeString(strings.Trim(strings.Join(args, ""), "-"))
	if err != nil {
		s.t.Fatal(err)
	}
	c.write(frameOf(body))
	frame, err := c.frame()
	if err != nil {
		s.print("closed")
		s.end(name)
		return
	}
	var h wire.ReplyHeader
	d := wire.NewDecoder(frame)
	if err := d.Decode(&h); err != nil {
		s.t.Fatal(err)
	}
	s.print("%d %v %s, %d bytes", h.Xid, h.Err, s.zxid(h.Zxid), d.Len())
}

// end forgets a connection that the server has closed.
func (s *script) end(name string) {
	if c := s.clients[name]; c != nil {
		c.nc.Close()
	}
	delete(s.clients, name)
	delete(s.muted, name)
}

// request sends a request and prints the reply; or several, separated by "&",
// at once.
func (s *script) request(name string, c *client, words []string) {
	type sent struct {
		xid   int32
		reply wire.Record
	}
	var requests []sent
	c.corked = true
	for len(words) > 0 {
		n := slices.Index(words, "&")
		if n < 0 {
			n = len(words)
		}
		code, req, reply := s.parse(words[0], words[1:n])
		requests = append(requests, sent{c.send(code, req), reply})
		words = words[min(n+1, len(words)):]
	}
	c.uncork()
	for _, r := range requests {
		if !s.answer(c, r.xid, r.reply) {
			s.end(name)
			return
		}
	}
}

// answer prints the answer to one request, after the events that came before
// it. It reports false if the connection has ended.
func (s *script) answer(c *client, xid int32, reply wire.Record) bool {
	result, err := c.receive(xid, reply)
	for _, e := range c.take() {
		s.print("%s", show([]wire.WatcherEvent{e}))
	}
	switch {
	case err != nil:
		s.print("closed")
		return false
	case result != wire.CodeOK:
		s.print("%d %v %s", result, result, s.zxid(c.zxid))
		if c.extra > 0 {
			s.print("and %d bytes", c.extra)
		}
	default:
		s.print("%s%s", s.zxid(c.zxid), s.format(reply))
	}
	return true
}

// drain prints the events that a session has, or that it has ended.
func (s *script) drain(name string) {
	c := s.clients[name]
	if c == nil || s.muted[name] {
		return
	}
	// A ping that cannot be written is no reason not to read what came before.
	_, _ = c.nc.Write(wire.AppendFrame(nil, &wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}))
	_, err := c.receive(wire.XidPing, nil)
	for _, e := range c.take() {
		s.print("%s: %s", name, show([]wire.WatcherEvent{e}))
	}
	if err != nil {
		s.print("%s: closed", name)
		s.end(name)
	}
}

// resume connects name's session again: with the right password, a wrong one,
// or having seen a transaction that is yet to come.
func (s *script) resume(name string, c *client, args []string) {
	r := wire.ConnectRequest{
		LastZxidSeen: s.base, TimeoutMillis: 12_000, SessionID: c.session.SessionID,
		Password: slices.Clone(c.session.Password),
	}
	switch strings.Join(args, " ") {
	case "wrong":
		r.Password[0]++
	case "ahead":
		r.LastZxidSeen = s.base + 1<<32
	case "readonly":
		r.HasReadOnly = true
	}
	if s.lazy {
		s.drain(name)
	}
	again := wrap(s.t, s.dial())
	again.careless = true
	again.write(wire.AppendFrame(nil, &r))
	frame, err := again.frame()
	if err != nil {
		s.print("closed without a reply")
		return
	}
	if err := wire.NewDecoder(frame).Decode(&again.session); err != nil {
		s.t.Fatal(err)
	}
	p := again.session
	s.print("session %s, timeout %d, read-only byte %v", s.owner(p.SessionID), p.TimeoutMillis, p.HasReadOnly)
	if p.SessionID == 0 {
		again.gone()
		return
	}
	s.drain(name) // the old connection
	c.nc.Close()
	s.clients[name] = again
}

// cleanUp deletes what a script has left on a server that others use too.
func (s *script) cleanUp() {
	c := wrap(s.t, s.dial()).open(&wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16)})
	c.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")}, nil)
	for name, other := range s.clients {
		if !s.muted[name] {
			other.ok(wire.OpCloseSession, new(wire.Empty), nil)
		}
		other.nc.Close()
	}
	for _, name := range c.children("/", false) {
		if name != "zookeeper" {
			c.deleteAll("/" + name)
		}
	}
	c.ok(wire.OpCloseSession, new(wire.Empty), nil)
	c.nc.Close()
}

func (c *client) deleteAll(path string) {
	for _, name := range c.children(path, false) {
		c.deleteAll(path + "/" + name)
	}
	c.delete(path)
}
