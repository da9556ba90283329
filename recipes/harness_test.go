package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
	"github.com/batonzk/baton/retry"
)

const (
	root           = "/locks/report"
	sessionTimeout = 10 * time.Second // in a bubble
	soon           = time.Second      // in a bubble: long before any session expires
)

// A world is a server with clients, in which the tests of this package take
// place. Those that are written against a world alone, without srv, run on
// any server.
type world struct {
	*testing.T
	srv     *embedded.Server // nil if the server is another
	family  family           // of the lock that tests for all kinds work with
	cause   error            // with which the faults cancel
	options []recipes.Option // of the locks of a scenario
	servers framework.Ensemble
	timeout time.Duration // of sessions
	ctx     context.Context

	mu      sync.Mutex
	clients []*framework.Client
	links   map[*framework.Client]*link
	held    map[string][]*recipes.Lease // by lock: granted and not yet released by the test
	tokens  map[string]map[string]int64 // by lock and what it was held for: the last
	log     syncBuffer
}

// inBubble runs f in a bubble of virtual time, with an embedded server. At the
// end nothing may be left: neither node nor watch nor goroutine.
func inBubble(t *testing.T, f func(w *world), opts ...embedded.Option) {
	t.Helper()
	inBubbleFrom(t, time.Time{}, f, opts...)
}

// inBubbleFrom is inBubble with clocks that show begin at first, instead of
// midnight on 1 January 2000, or that if begin is earlier.
func inBubbleFrom(t *testing.T, begin time.Time, f func(w *world), opts ...embedded.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin)) // there is nobody else yet
		w, stop := startWorld(t, opts...)
		defer stop()
		f(w)
		if !t.Failed() {
			w.checkNothingLeft()
		}
	})
}

// startWorld returns a world with an embedded server, which reaps no containers
// unless opts say so, and what closes its clients and the server.
func startWorld(t *testing.T, opts ...embedded.Option) (w *world, stop func()) {
	t.Helper()
	opts = append([]embedded.Option{embedded.WithContainerInterval(1000 * time.Hour)}, opts...)
	srv, err := embedded.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, srv, sessionTimeout)
	w.srv = srv
	return w, func() {
		defer srv.Close()
		w.closeClients()
	}
}

func newWorld(t *testing.T, servers framework.Ensemble, timeout time.Duration) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return &world{
		T: t, servers: servers, timeout: timeout, ctx: ctx,
		family: mutexes,
		links:  make(map[*framework.Client]*link),
		held:   make(map[string][]*recipes.Lease),
		tokens: make(map[string]map[string]int64),
	}
}

// client returns a new client that is connected.
func (w *world) client(opts ...framework.Option) *framework.Client {
	w.Helper()
	l := newLink(w.servers)
	opts = append([]framework.Option{
		framework.WithSessionTimeout(w.timeout),
		framework.WithLogger(slog.New(slog.NewTextHandler(&w.log, nil))),
		framework.WithDialer(l.dial),
		framework.WithReconnect(retry.BoundedExponential(w.timeout/500, w.timeout/20, retry.Unlimited)),
	}, opts...)
	c, err := framework.New(w.servers, opts...)
	if err != nil {
		w.Fatal(err)
	}
	if err := c.Start(); err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	w.clients = append(w.clients, c)
	w.links[c.Root()] = l
	w.mu.Unlock()
	if err := c.WaitConnected(w.ctx); err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *world) link(c *framework.Client) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[c.Root()]
}

func (w *world) closeClients() {
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.Errorf("closing a client: %v", err)
		}
	}
}

// mutex returns the mutex at root for a new client.
func (w *world) mutex(opts ...recipes.Option) *recipes.InterProcessMutex {
	w.Helper()
	return recipes.NewInterProcessMutex(w.client(), root, opts...)
}

// acquire acquires, or fails the test.
func (w *world) acquire(m recipes.InterProcessLock) *recipes.Lease {
	w.Helper()
	lease, err := m.Acquire(w.ctx)
	if err != nil {
		w.Fatalf("Acquire: %v", err)
	}
	w.granted(m.Path(), lease)
	return lease
}

// release releases, or fails the test.
func (w *world) release(lease *recipes.Lease) {
	w.Helper()
	if err := lease.Release(); err != nil {
		w.Errorf("Release: %v", err)
	}
	w.returned(lease)
}

// granted checks that no more hold the lock than may, by what the leases say
// of themselves, and that the tokens rise among those that exclude each other.
func (w *world) granted(lock string, lease *recipes.Lease) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	others := 0
	for _, other := range w.held[lock] {
		if excludes(other, lease) && other.Err() == nil {
			others++
		}
	}
	if others >= w.family.atOnce() {
		w.Errorf("too many holders: %s was granted while %d others hold", lease.Path(), others)
	}
	if w.tokens[lock] == nil {
		w.tokens[lock] = make(map[string]int64)
	}
	mine, last := heldFor(lease), w.tokens[lock]
	for what, token := range last {
		both := mine == shared && what == shared
		equal := mine == shared && lease.Token() == token // of the writer that it was
		if w.family.atOnce() == 1 && !both && !equal && lease.Token() <= token {
			w.Errorf("token %#x of %s does not exceed the last, %#x", lease.Token(), lease.Path(), token)
		}
	}
	w.held[lock] = append(w.held[lock], lease)
	last[mine] = max(last[mine], lease.Token())
}

// shared is what those hold for who do not exclude each other.
const shared = "__READ__"

// heldFor returns what comes before the number in the lease's node, without
// what makes it unique.
func heldFor(lease *recipes.Lease) string {
	if strings.Contains(lease.Path(), shared) {
		return shared
	}
	return ""
}

// excludes reports whether two leases exclude each other: unless both read,
// or one was got from the other.
func excludes(a, b *recipes.Lease) bool {
	return !(heldFor(a) == shared && heldFor(b) == shared) && a.Token() != b.Token()
}

func (w *world) returned(lease *recipes.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for lock, leases := range w.held {
		w.held[lock] = slices.DeleteFunc(leases, func(l *recipes.Lease) bool { return l == lease })
	}
}

// An attempt is an Acquire that is under way.
type attempt struct {
	lease  *recipes.Lease
	err    error
	at     time.Time // when it returned
	done   chan struct{}
	cancel context.CancelFunc
}

// attempt calls Acquire on a goroutine.
func (w *world) attempt(m recipes.InterProcessLock) *attempt {
	ctx, cancel := context.WithCancel(w.ctx)
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		defer cancel()
		a.lease, a.err = m.Acquire(ctx)
		a.at = time.Now()
		if a.err == nil {
			w.granted(m.Path(), a.lease)
		}
	}()
	return a
}

func (a *attempt) returned() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// wait waits for the attempt's lease.
func (w *world) wait(a *attempt) *recipes.Lease {
	w.Helper()
	<-a.done
	if a.err != nil {
		w.Fatalf("Acquire: %v", a.err)
	}
	return a.lease
}

// queue adds contenders to the line, one after the other, and returns their
// attempts in that order.
func (w *world) queue(ms ...recipes.InterProcessLock) []*attempt {
	w.Helper()
	observer := w.client()
	as := make([]*attempt, len(ms))
	for i, m := range ms {
		line := w.family.line(m.Path())
		before := len(w.children(observer, line))
		as[i] = w.attempt(m)
		w.eventually("a contender joins", func() bool { return len(w.children(observer, line)) > before })
	}
	w.settle()
	return as
}

// children lists a node's children, none if it does not exist.
func (w *world) children(c *framework.Client, path string) []string {
	w.Helper()
	names, _, err := c.Children(w.ctx, path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		w.Fatal(err)
	}
	return names
}

// settle returns when all that was begun has come to rest.
func (w *world) settle() {
	if w.srv != nil {
		synctest.Wait()
		return
	}
	time.Sleep(w.timeout / 10) // nothing rests on it, it makes the test sharper
}

// eventually waits until a condition holds.
func (w *world) eventually(what string, cond func() bool) {
	w.Helper()
	for end := time.Now().Add(6 * w.timeout); !cond(); {
		if time.Now().After(end) {
			w.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(w.timeout / 1000)
	}
}

// shortly is eventually, within much less than a session's timeout where time
// is virtual.
func (w *world) shortly(what string, cond func() bool) {
	w.Helper()
	if w.srv == nil {
		w.eventually(what, cond)
		return
	}
	for end := time.Now().Add(w.timeout / 4); !cond(); {
		if time.Now().After(end) {
			w.Errorf("did not happen within %v: %s", w.timeout/4, what)
			return
		}
		time.Sleep(w.timeout / 1000)
	}
}

// ephemerals returns the nodes that live with a session.
func (w *world) ephemerals() []string {
	var paths []string
	for line := range strings.Lines(w.srv.Dump()) {
		if path, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "ephemeral") {
			paths = append(paths, path)
		}
	}
	return paths
}

func (w *world) checkNothingLeft() {
	w.Helper()
	w.shortly("no ephemeral node is left", func() bool { return len(w.ephemerals()) == 0 })
	w.shortly("no watch is left", func() bool { return w.srv.WatchCount() == 0 })
	if w.Failed() {
		w.Logf("watches: %v\n%s\n%s", w.srv.Watches(), w.srv.Dump(), w.log.String())
	}
}

// A matcher is a condition on requests.
type matcher func(embedded.Request) bool

// hold holds requests until the connection that sent them ends, or the
// condition no longer holds.
func (m matcher) hold() func(embedded.Request) embedded.Verdict {
	return func(r embedded.Request) embedded.Verdict {
		for m(r) {
			select {
			case <-r.Done:
				return embedded.Pass
			case <-time.After(time.Millisecond):
			}
		}
		return embedded.Pass
	}
}

// then runs f at each of the requests.
func (m matcher) then(f func()) func(embedded.Request) embedded.Verdict {
	return func(r embedded.Request) embedded.Verdict {
		if m(r) {
			f()
		}
		return embedded.Pass
	}
}

// once runs f at the first of the requests.
func (m matcher) once(f func()) func(embedded.Request) embedded.Verdict {
	var o sync.Once
	return m.then(func() { o.Do(f) })
}

// answer has the requests refused with an error code.
func (m matcher) answer(code int32) func(embedded.Request) embedded.Verdict {
	return func(r embedded.Request) embedded.Verdict {
		if m(r) {
			return embedded.Answer(code)
		}
		return embedded.Pass
	}
}

// of makes a condition on requests apply to one client's session only.
func of(c *framework.Client, match matcher) matcher {
	id := c.Session().ID()
	return func(r embedded.Request) bool { return r.Session == id && match(r) }
}

func op(names ...string) matcher {
	return func(r embedded.Request) bool { return slices.Contains(names, r.Op) }
}

// readsNode reports whether a request reads a contender's node, not a root.
func readsNode(r embedded.Request) bool { return r.Op == "getData" && strings.Contains(r.Path, "_c_") }

// isWork reports whether a request was sent for an operation: not for the
// connection's sake.
func isWork(r embedded.Request) bool {
	return !op("ping", "auth", "closeSession", "setWatches", "setWatches2")(r)
}

// requests collects what clients ask of the server.
func (w *world) requests(match matcher) *requestLog {
	l := &requestLog{}
	l.stop = w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if match(r) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.list = append(l.list, r)
		}
		return embedded.Pass
	})
	return l
}

type requestLog struct {
	stop func()
	mu   sync.Mutex
	list []embedded.Request
}

func (l *requestLog) ops() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ops []string
	for _, r := range l.list {
		ops = append(ops, r.Op)
	}
	return ops
}

// wantErr checks that an error is there and wraps all of the given ones.
func wantErr(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one that wraps %q", what, targets)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: error %q, want one that wraps %q", what, err, target)
		}
	}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// put creates a node that is not ephemeral, parents included.
func (w *world) put(c *framework.Client, path string, opts ...framework.CreateOption) {
	w.Helper()
	if _, err := c.Create(w.ctx, path, nil, append(opts, framework.WithParents())...); err != nil {
		w.Fatal(err)
	}
}

// remove deletes a node as an outsider.
func (w *world) remove(c *framework.Client, path string) {
	w.Helper()
	if err := c.Delete(w.ctx, path, framework.AnyVersion); err != nil {
		w.Fatal(err)
	}
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// problems collects what a bubble finds, for a property test outside of it.
type problems struct {
	testing.TB
	mu   sync.Mutex
	list []string
}

func (p *problems) Helper() {}

func (p *problems) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, fmt.Sprintf(format, args...))
}

// inBubbleOf is inBubble for a property test, whose world may be torn down
// without a look at what is left.
func inBubbleOf(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w, stop := startWorld(t)
		defer stop()
		f(w)
	})
}
