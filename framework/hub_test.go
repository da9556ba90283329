package framework_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// TestHubUnderRandomFaults compares watches with what the server knows, over
// random changes, reads, cancels, departures, cuts, lost replies and expiries,
// with requests and replies that are slow at random: no change is missed, none
// is invented, and nothing is left.
func TestHubUnderRandomFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.Custom(drawStep), 5, 60).Draw(rt, "script")
		delays := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 30).Draw(rt, "delays")
		var problem error
		synctest.Test(t, func(t *testing.T) {
			srv := startServer(t)
			m := &hubModel{srv: srv, c: connect(t, srv), other: connect(t, srv)}
			delay := slowly(m.c.Session().ID(), delays)
			quickRequests, quickReplies := srv.OnRequest(delay), srv.OnReply(delay)
			for _, s := range script {
				m.step(s)
			}
			srv.Unsilence()
			time.Sleep(30 * time.Second)
			quickRequests()
			quickReplies()
			synctest.Wait()
			problem = m.check()
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

// slowly delays a session's requests by the given milliseconds, in turn.
func slowly(session int64, delays []int) func(embedded.Request) embedded.Verdict {
	var n atomic.Int64
	return func(r embedded.Request) embedded.Verdict {
		if r.Session == session && r.Op != "ping" {
			time.Sleep(time.Duration(delays[int(n.Add(1))%len(delays)]) * time.Millisecond)
		}
		return embedded.Pass
	}
}

type hubStep struct {
	What, Path, Kind, Pause int
	Cancel                  time.Duration // of a read, 0 for not at all
}

func drawStep(t *rapid.T) hubStep {
	return hubStep{
		What:  rapid.IntRange(0, 15).Draw(t, "what"),
		Path:  rapid.IntRange(0, 1).Draw(t, "path"),
		Kind:  rapid.IntRange(0, 2).Draw(t, "kind"),
		Pause: rapid.SampledFrom([]int{0, 0, 0, 1, 30, 800}).Draw(t, "pause"),
		Cancel: rapid.SampledFrom([]time.Duration{
			0, 0, time.Microsecond, time.Millisecond, 3 * time.Millisecond,
		}).Draw(t, "cancel"),
	}
}

type hubModel struct {
	srv      *embedded.Server
	c, other *framework.Client
	watches  []*modelWatch
	pending  []<-chan *modelWatch // reads under way
}

// modelWatch is a watch and what its read saw.
type modelWatch struct {
	w       *framework.Watch
	path    string
	kind    int
	stat    framework.Stat
	exists  bool
	stopped bool
}

func (m *hubModel) step(s hubStep) {
	ctx := context.Background()
	path := fmt.Sprintf("/n%d", s.Path)
	id := int64(0)
	if session := m.c.Session(); session != nil {
		id = session.ID()
	}
	switch s.What {
	case 0, 1, 2, 3, 4:
		m.read(path, s.Kind, s.Cancel)
	case 5:
		_, _ = m.other.Create(ctx, path, nil)
	case 6:
		_, _ = m.other.Set(ctx, path, nil, framework.AnyVersion)
	case 7:
		_ = m.other.Delete(ctx, path, framework.AnyVersion, framework.WithChildren())
	case 8:
		_, _ = m.other.Create(ctx, path+"/c", nil)
	case 9:
		_ = m.other.Delete(ctx, path+"/c", framework.AnyVersion)
	case 10:
		m.collect()
		if n := len(m.watches); n > 0 {
			m.watches[s.Kind%n].w.Stop()
			m.watches[s.Kind%n].stopped = true
		}
	case 11:
		m.srv.DropConnections(id)
	case 12:
		m.srv.LoseReply(func(r embedded.Request) bool { return r.Session == id && r.Op != "ping" })
	case 13:
		m.srv.CutBefore(func(r embedded.Request) bool { return r.Session == id && r.Op != "ping" })
	case 14:
		m.srv.Silence(id)
		time.Sleep(300 * time.Millisecond)
		m.srv.Unsilence()
	case 15:
		if s.Path == 0 && s.Kind == 0 {
			_ = m.srv.ExpireSession(id)
		}
	}
	time.Sleep(time.Duration(s.Pause) * time.Millisecond)
}

// read sets a watch in the background, for as long as that takes or until it
// is cancelled.
func (m *hubModel) read(path string, kind int, until time.Duration) {
	done := make(chan *modelWatch, 1)
	m.pending = append(m.pending, done)
	ctx, cancel := context.WithCancel(context.Background())
	if until > 0 {
		time.AfterFunc(until, cancel)
	}
	go func() {
		defer cancel()
		mw := &modelWatch{path: path, kind: kind}
		var err error
		switch kind {
		case 0:
			_, mw.stat, mw.w, err = m.c.GetW(ctx, path)
		case 1:
			mw.stat, mw.w, err = m.c.ExistsW(ctx, path)
		case 2:
			_, mw.stat, mw.w, err = m.c.ChildrenW(ctx, path)
		}
		mw.exists = err == nil && !mw.stat.IsZero()
		done <- mw
	}()
}

// collect takes the watches of the reads that are done.
func (m *hubModel) collect() {
	left := m.pending[:0]
	for _, done := range m.pending {
		select {
		case mw := <-done:
			if mw.w != nil {
				m.watches = append(m.watches, mw)
			}
		default:
			left = append(left, done)
		}
	}
	m.pending = left
}

func (m *hubModel) check() error {
	m.collect()
	if len(m.pending) > 0 {
		return fmt.Errorf("%d reads still under way", len(m.pending))
	}
	for i, mw := range m.watches {
		if err := m.checkWatch(mw); err != nil {
			return fmt.Errorf("watch %d of %s, kind %d: %w", i, mw.path, mw.kind, err)
		}
		mw.w.Stop()
	}
	synctest.Wait()
	if n := m.c.Session().Watched(); n != 0 {
		return fmt.Errorf("%d entries left in the hub", n)
	}
	if n := m.srv.WatchCount(); n != 0 {
		return fmt.Errorf("watches left on the server: %+v", m.srv.Watches())
	}
	if n := m.c.InFlight(); n != 0 {
		return fmt.Errorf("%d requests in flight", n)
	}
	return nil
}

func (m *hubModel) checkWatch(mw *modelWatch) error {
	node, exists := m.srv.Node(mw.path)
	zxid, seen := node.Mzxid, mw.stat.Mzxid
	if mw.kind == 2 {
		zxid, seen = node.Pzxid, mw.stat.Pzxid
	}
	changed := exists != mw.exists || exists && (node.Czxid != mw.stat.Czxid || zxid != seen)
	var ev framework.Event
	select {
	case ev = <-mw.w.Event():
	default:
		if changed && !mw.stopped {
			return errors.New("missed a change")
		}
		return nil
	}
	switch ev.Type {
	case framework.EventSessionEnded:
		return nil
	case framework.EventCreated:
		if mw.exists {
			return errors.New("created, although its read saw the node")
		}
		return nil
	case framework.EventDeleted:
		if !mw.exists || exists && node.Czxid == mw.stat.Czxid {
			return errors.New("deleted, although the node it read is there")
		}
		return nil
	}
	if !changed {
		return fmt.Errorf("%v, although the node is as its read saw it", ev.Type)
	}
	return nil
}

// A turnstile lets the requests of one session through one by one.
type turnstile struct{ passes chan struct{} }

func newTurnstile(srv *embedded.Server, session int64) (ts turnstile, open func()) {
	ts.passes = make(chan struct{}, 100)
	opened := make(chan struct{})
	remove := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
		if r.Session == session && r.Op != "ping" {
			select {
			case <-ts.passes:
			case <-opened:
			case <-r.Done:
			}
		}
		return embedded.Pass
	})
	return ts, func() { remove(); close(opened) }
}

func (ts turnstile) pass() {
	ts.passes <- struct{}{}
	synctest.Wait()
}

// The answer to a read says that the server holds a watch. It does not if a
// removal was queued behind the read meanwhile, though others wait for the
// same node by then.
func TestWatchRemovedBehindItsRead(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other, ctx := connect(t, srv), connect(t, srv), context.Background()
		if _, err := c.Create(ctx, "/n", nil); err != nil {
			t.Fatal(err)
		}
		ts, open := newTurnstile(srv, c.Session().ID())
		getW := func() (leave func()) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { _, _, _, _ = c.GetW(ctx, "/n") }()
			synctest.Wait()
			return func() { cancel(); synctest.Wait() }
		}
		getW()()        // the waiter leaves before the reply
		leave := getW() // another comes
		ts.pass()       // the first reply: the server holds a watch
		leave()         // a removal is queued behind the second read
		defer getW()()  // a third comes
		ts.pass()       // the second reply
		ts.pass()       // the removal
		if err := other.Delete(ctx, "/n", framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		found := make(chan *framework.Watch, 1)
		go func() {
			_, w, _ := c.ExistsW(ctx, "/n")
			found <- w
		}()
		synctest.Wait()
		open()
		w := <-found
		if w == nil {
			t.Fatal("no watch")
		}
		defer w.Stop()
		synctest.Wait()
		if _, err := other.Create(ctx, "/n", nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.Event():
		case <-time.After(time.Minute):
			t.Errorf("the node was created, and its watch heard nothing; the server holds %v", srv.Watches())
		}
	})
}
