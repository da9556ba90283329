//go:build linux

package interop_test

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/faultproxy"
	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/leak"
	"github.com/batonzk/baton/internal/testenv"
)

// A world is a server, and a client that looks on.
type world struct {
	addr     string
	observer *framework.Client
}

// onEachServer runs f on an embedded server and, if that is turned on, on a
// real one, both with the given tick: sessions last 2 to 20 ticks, and expire
// up to one tick late. The two take turns at waiting, so they run at the same
// time. At the end no contender may be left.
func onEachServer(t *testing.T, tick time.Duration, f func(t *testing.T, w *world)) {
	leak.Check(t)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		srv, err := embedded.Start(embedded.WithTick(tick))
		must(t, err)
		t.Cleanup(func() { must(t, srv.Close()) })
		addr, err := srv.Listen("127.0.0.1:0")
		must(t, err)
		w := newWorld(t, addr.String())
		t.Cleanup(func() {
			// Each client that was closed in order has taken its session along,
			// and those that were killed had the time to expire.
			if n := len(srv.Sessions()); n != 1 {
				t.Errorf("%d sessions are left, want the observer's alone:\n%s", n, srv.Dump())
			}
		})
		f(t, w)
	})
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, testenv.StartApache(t, 1, apache.WithTick(tick)).Connect())
		f(t, w)
	})
}

func newWorld(t *testing.T, addr string) *world {
	t.Helper()
	where, err := ensemble.NewFixed(addr)
	must(t, err)
	c, err := framework.New(where)
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { must(t, c.Close()) })
	must(t, c.WaitConnected(within(t)))
	w := &world{addr: addr, observer: c}
	t.Cleanup(func() {
		if left := w.ephemerals(t, "/locks"); len(left) > 0 {
			t.Errorf("nodes are left: %v", left)
		}
	})
	return w
}

// children lists the nodes below a lock's path, which may not exist yet.
func (w *world) children(t *testing.T, root string) []string {
	t.Helper()
	names, _, err := w.observer.Children(within(t), root)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// ephemerals lists the ephemeral nodes at and below a path, and their sessions.
func (w *world) ephemerals(t *testing.T, at string) map[string]int64 {
	t.Helper()
	names, stat, err := w.observer.Children(within(t), at)
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	must(t, err)
	if stat.EphemeralOwner != 0 {
		return map[string]int64{at: stat.EphemeralOwner}
	}
	found := make(map[string]int64)
	for _, name := range names {
		maps.Copy(found, w.ephemerals(t, framework.JoinPath(at, name)))
	}
	return found
}

// waitEmpty waits until nobody holds a lock or waits for it.
func (w *world) waitEmpty(t *testing.T, root string) {
	t.Helper()
	w.wait(t, func() (bool, any) {
		left := w.ephemerals(t, root)
		return len(left) == 0, left
	})
}

// waitEmptyBut waits until there is one node, of who holds the lock.
func (w *world) waitEmptyBut(t *testing.T, root, holder string) {
	t.Helper()
	w.wait(t, func() (bool, any) {
		left := w.ephemerals(t, root)
		return len(left) == 1 && left[holder] != 0, left
	})
}

// waitWaiting waits until there are n who wait for the lock of a user, which
// somebody holds.
func (w *world) waitWaiting(t *testing.T, u *user, n int) {
	t.Helper()
	f := u.family
	w.wait(t, func() (bool, any) {
		names := w.children(t, u.root+f.waiters)
		if f.holderInLine {
			return len(names) == n+1, names
		}
		return len(names) == n, names
	})
}

// wait polls until something is the case, or says what is instead.
func (w *world) wait(t *testing.T, is func() (bool, any)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		ok, instead := is()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain, there is %v", instead)
		}
	}
}

// waitLine waits until there are n contenders in a lock's line.
func (w *world) waitLine(t *testing.T, root string, n int) {
	t.Helper()
	w.wait(t, func() (bool, any) {
		names := w.children(t, root)
		return len(names) == n, names
	})
}

// root is a lock's path of the test's own.
func root(t *testing.T) string {
	return "/locks/" + strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
}

// A session is a peer that is connected.
type session struct {
	*interop.Peer
	timeout time.Duration
	network *faultproxy.Proxy // nil if it is connected directly
}

// startProxy returns a network to a server that is closed at the end of the
// test.
func startProxy(t *testing.T, addr string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.Start(addr)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// connectThrough connects a peer by a network of its own.
func (w *world) connectThrough(t *testing.T, p *interop.Peer, timeout time.Duration) *session {
	t.Helper()
	network := startProxy(t, w.addr)
	s := connect(t, p, network.Addr(), timeout)
	s.network = network
	return s
}

// connect connects a peer, until the test ends.
func connect(t *testing.T, p *interop.Peer, addr string, timeout time.Duration) *session {
	t.Helper()
	m, err := p.Do(within(t), "connect", addr, strconv.FormatInt(timeout.Milliseconds(), 10))
	must(t, err)
	if want := strconv.FormatInt(timeout.Milliseconds(), 10); m.Word(1) != want {
		t.Fatalf("the session timeout is %s ms, want %s", m.Word(1), want)
	}
	t.Cleanup(func() {
		if _, err := p.Do(within(t), "disconnect"); err != nil && !errors.Is(err, interop.ErrGone) {
			t.Error(err)
		}
	})
	return &session{Peer: p, timeout: timeout}
}

// A user is a peer with one lock.
type user struct {
	*session
	*family
	lock string // its ID, for the verbs
	root string
}

// user makes a lock of a family. It goes by id, with the side that the family
// has.
func (s *session) user(t *testing.T, f *family, id, root string) *user {
	t.Helper()
	_, err := s.Do(within(t), f.verb, append([]string{id, root}, f.args...)...)
	must(t, err)
	return &user{session: s, family: f, lock: id + f.side, root: root}
}

func (s *session) mutex(t *testing.T, lock, root string) *user {
	t.Helper()
	return s.user(t, mutexes, lock, root)
}

// A grant is the answer to acquire.
type grant struct {
	path  string // of the first node, and its token
	token int64
	at    time.Duration
	nodes []string // all
}

// attempt begins to acquire; forever and try are special times.
func (u *user) attempt(wait time.Duration) *interop.Call {
	return u.Start("acquire", u.lock, strconv.FormatInt(wait.Milliseconds(), 10))
}

const (
	try     = 0
	forever = -time.Millisecond
)

// granted waits for an attempt's success.
func granted(t *testing.T, c *interop.Call) grant {
	t.Helper()
	m, err := c.Wait(within(t))
	must(t, err)
	var g grant
	g.path = m.Word(0)
	g.token, err = strconv.ParseInt(m.Word(1), 10, 64)
	must(t, err)
	at, err := strconv.ParseInt(m.Word(2), 10, 64)
	must(t, err)
	g.at = time.Duration(at)
	g.nodes = []string{g.path}
	for i := 3; i < len(m.Words); i += 2 {
		g.nodes = append(g.nodes, m.Words[i])
	}
	return g
}

// attemptMany is attempt for a number of permits.
func (u *user) attemptMany(wait time.Duration, permits int) *interop.Call {
	return u.Start("acquire", u.lock, strconv.FormatInt(wait.Milliseconds(), 10), strconv.Itoa(permits))
}

func (u *user) acquire(t *testing.T) grant {
	t.Helper()
	return granted(t, u.attempt(forever))
}

// fails waits for an attempt's failure.
func fails(t *testing.T, c *interop.Call, want string) error {
	t.Helper()
	_, err := c.Wait(within(t))
	wantErr(t, "acquire", err, kind(want))
	return err
}

// release releases, and returns when it was begun.
func (u *user) release(t *testing.T) time.Duration {
	t.Helper()
	began := interop.Monotonic()
	_, err := u.Do(within(t), "release", u.lock)
	must(t, err)
	return began
}
