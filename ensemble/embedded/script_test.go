package embedded_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// The scripts in testdata say what a ZooKeeper 3.8.0 server answered. Each
// line is a request, "session operation arguments", and is followed by what
// came back, on lines that begin with "<". Sessions connect when they are
// first named; transactions are counted from the first connect. To record the
// answers of a real server anew:
//
//	go test ./ensemble/embedded -run TestScripts -record 127.0.0.1:2181
//
// The server must be fresh and started with extendedTypesEnabled, and with
// superDigest below for its superuser.
var record = flag.String("record", "", "record the scripts' answers from the ZooKeeper server at this address")

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			srv := start(t, embedded.WithSuper(superDigest))
			dial := func() net.Conn { return must(srv.DialContext(context.Background(), "", "")) }
			if *record != "" {
				dial = func() net.Conn { return must(net.Dial("tcp", *record)) }
			}
			got := newScript(t, dial).run(string(text))
			if *record != "" {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareLines(t, string(text), got)
		})
	}
}

// compareLines reports the lines in which got differs from want, each with
// the request that it answers.
func compareLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	request := ""
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Errorf("line %d, after %q:\nreal server: %s\n   embedded: %s", i+1, request, a, b)
			if strings.HasPrefix(a, "<") != strings.HasPrefix(b, "<") {
				return // out of step
			}
		}
		if !strings.HasPrefix(a, "<") {
			request = a
		}
	}
}

// A script is one script that runs.
type script struct {
	t       *testing.T
	dial    func() net.Conn
	clients map[string]*client
	names   map[int64]string // of sessions
	base    int64            // zxid after the first connect
	out     strings.Builder
}

func newScript(t *testing.T, dial func() net.Conn) *script {
	return &script{t: t, dial: dial, clients: map[string]*client{}, names: map[int64]string{}}
}

// superDigest is that of a superuser whose password is "secret".
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

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

func (s *script) print(format string, args ...any) { fmt.Fprintf(&s.out, "< "+format+"\n", args...) }

// step carries out one line and prints what came back to each session.
func (s *script) step(words []string) {
	name, op, args := words[0], words[1], words[2:]
	c := s.clients[name]
	if c == nil {
		c = wrap(s.t, s.dial()).open(&wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16), HasReadOnly: true})
		s.clients[name] = c
		s.names[c.session.SessionID] = name
		c.ok(wire.OpPing, new(wire.Empty), nil)
		if s.base == 0 {
			s.base = c.zxid
		}
	}
	if op == "resume" {
		s.resume(name, c, args)
	} else {
		s.request(name, c, op, args)
	}
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		s.drain(name)
	}
}

// request sends a request and prints the reply.
func (s *script) request(name string, c *client, op string, args []string) {
	code, req, reply := s.parse(op, args)
	result, err := c.receive(c.send(code, req), reply)
	before := c.take()
	for _, e := range before {
		s.print("%s", show([]wire.WatcherEvent{e}))
	}
	switch {
	case err != nil:
		s.print("closed")
		delete(s.clients, name)
		return
	case result != wire.CodeOK:
		s.print("%d %v %s", result, result, s.zxid(c.zxid))
		if c.extra > 0 {
			s.print("and %d bytes", c.extra)
		}
	default:
		s.print("%s%s", s.zxid(c.zxid), s.format(reply))
	}
}

// drain prints the events that a session has, or that it has ended.
func (s *script) drain(name string) {
	c := s.clients[name]
	if c == nil {
		return
	}
	ended := false
	if _, err := c.nc.Write(wire.AppendFrame(nil, &wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing})); err != nil {
		ended = true
	} else if _, err := c.receive(wire.XidPing, nil); err != nil {
		ended = true
	}
	for _, e := range c.take() {
		s.print("%s: %s", name, show([]wire.WatcherEvent{e}))
	}
	if ended {
		s.print("%s: closed", name)
		delete(s.clients, name)
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
	again := wrap(s.t, s.dial())
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
	s.clients[name] = again
}

// cleanUp deletes what a script has left on a server that others use too.
func (s *script) cleanUp() {
	c := wrap(s.t, s.dial()).open(&wire.ConnectRequest{TimeoutMillis: 10_000, Password: make([]byte, 16)})
	c.ok(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")}, nil)
	for _, other := range s.clients {
		other.ok(wire.OpCloseSession, new(wire.Empty), nil)
	}
	for _, name := range c.children("/", false) {
		if name != "zookeeper" {
			c.deleteAll("/" + name)
		}
	}
	c.ok(wire.OpCloseSession, new(wire.Empty), nil)
}

func (c *client) deleteAll(path string) {
	for _, name := range c.children(path, false) {
		c.deleteAll(path + "/" + name)
	}
	c.delete(path)
}
