package recipes_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// Readers hold together, and a writer waits for all of them.
func TestReadersOverlap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		var reads []*recipes.Lease
		for range 3 {
			reads = append(reads, w.acquire(rw.ReadLock()), w.acquire(w.readWrite().ReadLock()))
		}
		writing := w.queue(w.readWrite().WriteLock())[0]
		for _, i := range []int{5, 0, 3, 1, 4, 2} {
			if writing.returned() {
				t.Fatal("a writer was granted beside readers")
			}
			w.release(reads[i])
			w.settle()
		}
		w.release(w.wait(writing))
	})
}

// Only writers ahead are in a reader's way: one behind is not, or the two
// would wait for each other; and who came after a writer waits for it, so
// that readers who come and go do not keep it out.
func TestReadersLetPassWritersAhead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		write, read := w.readWrite().WriteLock(), w.readWrite().ReadLock()
		lease := w.acquire(write)
		as := w.queue(read, read, write, read, write, read, read)
		granted := func(n int) {
			t.Helper()
			w.settle()
			for i, a := range as {
				if a.returned() != (i < n) {
					t.Errorf("%d should be granted, contender %d is: %v", n, i, a.returned())
				}
			}
		}
		for _, step := range []struct {
			ends    []int
			granted int
		}{{nil, 2}, {[]int{0}, 2}, {[]int{1}, 3}, {[]int{2}, 4}, {[]int{3}, 5}, {[]int{4}, 7}, {[]int{5, 6}, 7}} {
			if step.ends == nil {
				w.release(lease)
			}
			for _, i := range step.ends {
				w.release(w.wait(as[i]))
			}
			granted(step.granted)
		}
	})
}

// Readers that overlap without end do not keep a writer out.
func TestWriterIsNotStarved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		stop := make(chan struct{})
		for i := range 4 {
			read := w.readWrite().ReadLock()
			go func() {
				time.Sleep(time.Duration(i) * soon / 4)
				for {
					select {
					case <-stop:
						return
					default:
						lease := w.acquire(read)
						time.Sleep(soon)
						w.release(lease)
					}
				}
			}()
		}
		defer w.settle()
		defer close(stop)
		write := w.readWrite().WriteLock()
		for range 10 {
			time.Sleep(soon)
			began := time.Now()
			w.release(w.acquire(write))
			if took := time.Since(began); took > soon {
				t.Errorf("a writer waited for %v, longer than any reader of its time held", took)
			}
		}
	})
}

// A hundred readers behind one writer: each is woken by one event, and is
// granted by it, without a request.
func TestReadersBehindOneWriter(t *testing.T) {
	t.Parallel()
	const n = 100
	inBubble(t, func(w *world) {
		writing := w.acquire(w.readWrite().WriteLock())
		var ms []recipes.InterProcessLock
		for range n {
			ms = append(ms, w.readWrite().ReadLock())
		}
		as := w.queue(ms...)
		before := w.srv.WatchCount()
		if want := 2*n + 1; before != want { // the writer's and their own nodes, and the writer's own
			t.Errorf("%d watches for %d readers, want %d", before, n, want)
		}
		log := w.requests(isWork)
		w.release(writing)
		for _, a := range as {
			w.wait(a)
		}
		w.settle()
		if ops := log.ops(); len(ops) != 1 {
			t.Errorf("a release sent %d requests, want none but the delete", len(ops))
		}
		if fired := before - w.srv.WatchCount(); fired != n+1 {
			t.Errorf("a release fired %d watches, want %d", fired, n+1)
		}
		for _, a := range as {
			w.release(a.lease)
		}
	})
}

// A reader behind several writers waits for the nearest, and is not woken by
// those before it.
func TestReaderWaitsForTheNearestWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.readWrite().WriteLock())
		write := w.readWrite().WriteLock()
		reader := w.client()
		as := w.queue(write, write, readLock(reader, root), write)
		log := w.requests(of(reader, isWork))
		w.release(lease)
		w.release(w.wait(as[0]))
		w.settle()
		if ops := log.ops(); len(ops) > 0 || as[2].returned() {
			t.Errorf("the reader sent %v while the nearest writer had the lock", ops)
		}
		w.release(w.wait(as[1]))
		w.release(w.wait(as[2]))
		w.release(w.wait(as[3]))
	})
}

// The nearest writer gives up: the reader waits for the one before it.
func TestReadersWriterGivesUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.readWrite().WriteLock())
		as := w.queue(w.readWrite().WriteLock(), w.readWrite().ReadLock())
		as[0].cancel()
		<-as[0].done
		w.settle()
		if as[1].returned() {
			t.Error("a reader was granted beside a writer")
		}
		w.release(lease)
		w.release(w.wait(as[1]))
	})
}

// A reader behind a writer of its own client that waits itself does not wait
// for what the client holds, and is not told so.
func TestReaderBehindOwnWaitingWriter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		reading := w.acquire(w.readWrite().ReadLock())
		own := w.readWrite()
		waiting := w.queue(own.WriteLock())[0]
		try := func() string {
			t.Helper()
			w.settle() // the one before has left
			_, err := own.ReadLock().TryAcquire(w.ctx)
			wantErr(t, "TryAcquire", err, recipes.ErrHeld)
			return err.Error()
		}
		if msg := try(); strings.Contains(msg, "held by this client") {
			t.Errorf("the writer before does not hold: %s", msg)
		}
		w.release(reading)
		writing := w.wait(waiting)
		if msg := try(); !strings.Contains(msg, "held by this client") {
			t.Errorf("the error does not say who holds: %s", msg)
		}
		w.settle()
		w.release(writing)
	})
}

// A reader that asks to write would wait for itself. It is told at once, and
// makes no node.
func TestUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		rw := recipes.NewInterProcessReadWriteLock(c, root)
		reading := w.acquire(rw.ReadLock())
		ctx := reading.Context(w.ctx)
		w.settle()
		log := w.requests(isWork)
		for _, write := range []*recipes.WriteLock{rw.WriteLock(), recipes.NewInterProcessReadWriteLock(c, root).WriteLock()} {
			_, err := write.Acquire(ctx)
			wantErr(t, "Acquire", err, recipes.ErrDeadlock)
			_, err = write.TryAcquire(ctx)
			wantErr(t, "TryAcquire", err, recipes.ErrDeadlock)
			err = write.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
			wantErr(t, "Do", err, recipes.ErrDeadlock)
		}
		done, cancel := context.WithCancel(ctx)
		cancel()
		_, err := rw.WriteLock().Acquire(done)
		wantErr(t, "Acquire with a done context", err, context.Canceled)
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("requests were sent: %v", ops)
		}
		// another lock's reader may write here
		other := w.acquire(recipes.NewInterProcessReadWriteLock(c, root+"2").ReadLock())
		if _, err := rw.WriteLock().TryAcquire(other.Context(w.ctx)); err == nil {
			t.Error("a writer beside a reader")
		} else {
			wantErr(t, "a reader of another lock", err, recipes.ErrHeld)
		}
		w.release(other)
		w.release(reading)
		_, err = rw.WriteLock().Acquire(ctx)
		wantErr(t, "a dead reader's context", err, recipes.ErrReleased)
		w.release(w.acquire(rw.WriteLock()))
	})
}

func TestReadWriteReentry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		for _, side := range []recipes.InterProcessLock{rw.ReadLock(), rw.WriteLock()} {
			lease := w.acquire(side)
			again, err := side.Acquire(lease.Context(w.ctx))
			if err != nil || again.Path() != lease.Path() {
				t.Fatalf("re-entry: %v, %v", again, err)
			}
			w.release(lease)
			_, err = w.readWrite().WriteLock().TryAcquire(w.ctx)
			wantErr(t, "TryAcquire after one release of two", err, recipes.ErrHeld)
			w.release(again)
		}
		// What carries both is a writer's that reads: it may do either.
		writing := w.acquire(rw.WriteLock())
		reading, err := rw.ReadLock().Acquire(writing.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		ctx := reading.Context(writing.Context(w.ctx))
		for side, want := range map[recipes.InterProcessLock]*recipes.Lease{rw.ReadLock(): reading, rw.WriteLock(): writing} {
			again, err := side.TryAcquire(ctx)
			if err != nil || again.Path() != want.Path() {
				t.Fatalf("re-entry: %v, %v, want %s", again, err, want.Path())
			}
			w.release(again)
		}
		w.release(writing)
		_, err = rw.WriteLock().Acquire(ctx)
		wantErr(t, "the writer's context", err, recipes.ErrReleased)
		_, err = rw.WriteLock().Acquire(reading.Context(w.ctx))
		wantErr(t, "the reader's context", err, recipes.ErrDeadlock)
		w.release(reading)
	})
}

// One who is not given a context of the writer's lease is another, also in
// the same process.
func TestReaderOfAnotherOwnerWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		writing := w.acquire(rw.WriteLock())
		_, err := rw.ReadLock().TryAcquire(w.ctx)
		wantErr(t, "TryAcquire", err, recipes.ErrHeld)
		as := w.queue(rw.ReadLock(), rw.ReadLock())
		w.release(writing)
		for _, a := range as {
			w.release(w.wait(a))
		}
	})
}

// The nodes are those of Curator's.
func TestReadWriteNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		data := []byte("me")
		c := w.client()
		rw := recipes.NewInterProcessReadWriteLock(c, root, recipes.WithData(data))
		data[0] = 'x'
		writing := w.acquire(rw.WriteLock())
		behind := w.queue(rw.ReadLock())[0]
		reading, err := rw.ReadLock().Acquire(writing.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		w.release(writing)
		const protection = `/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-`
		for lease, form := range map[*recipes.Lease]string{
			writing:        "__WRIT__0000000000",
			reading:        "__READ__0000000000",
			w.wait(behind): "__READ__0000000001",
		} {
			if !regexp.MustCompile("^" + root + protection + form + "$").MatchString(lease.Path()) {
				t.Errorf("the node is %s, want %s%s", lease.Path(), protection, form)
			}
		}
		got, stat, err := c.Get(w.ctx, reading.Path())
		if err != nil || string(got) != "me" || stat.EphemeralOwner != c.Session().ID() {
			t.Errorf("the reader's node holds %q of session %#x, %v", got, stat.EphemeralOwner, err)
		}
		if rw.Path() != root || rw.ReadLock().Path() != root || rw.WriteLock().Path() != root {
			t.Error("the path is another")
		}
		w.release(reading)
		w.release(behind.lease)
	})
}

// What holds a mutex has no part in a read-write lock, and the other way
// round.
func TestReadWriteForeignChildren(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		mutex := w.acquire(w.mutex())
		defer w.release(mutex)
		delete(w.held, root) // the mutex is another lock at the same path
		delete(w.tokens, root)
		c := w.client()
		w.put(c, root+"/workid")
		w.put(c, root+"/_c_x-__WRIT__0000000000") // dead
		w.put(c, root+"/_c_x-__READ__0000000000") // dead
		rw := w.readWrite()
		w.release(w.acquire(rw.ReadLock()))
		w.release(w.acquire(rw.WriteLock()))
		ps, err := rw.WriteLock().Participants(w.ctx)
		if err != nil || len(ps) != 1 || !ps[0].Dead || ps[0].Holder {
			t.Errorf("the writers are %+v, %v, want the dead one", ps, err)
		}
		_, err = w.mutex().TryAcquire(w.ctx)
		wantErr(t, "the mutex", err, recipes.ErrHeld)
	})
}

// Each side's participants are its own, the lock's are those of both, and those
// hold who need not wait.
func TestReadWriteParticipants(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		side := map[string]interface {
			Participants(ctx context.Context) ([]recipes.Participant, error)
		}{"read": rw.ReadLock(), "write": rw.WriteLock(), "both": rw}
		check := func(name string, holders, all int, behind ...*recipes.Lease) {
			t.Helper()
			ps, err := side[name].Participants(w.ctx)
			if err != nil || ps == nil || len(ps) != all {
				t.Fatalf("%s: %d participants, %v, want %d", name, len(ps), err, all)
			}
			for i, p := range ps {
				if p.Holder != (i < holders) {
					t.Errorf("%s: participant %d holds: %v, want the first %d", name, i, p.Holder, holders)
				}
			}
		}
		check("read", 0, 0)
		check("write", 0, 0)
		check("both", 0, 0)
		var reads []*recipes.Lease
		for range 20 {
			reads = append(reads, w.acquire(rw.ReadLock()))
		}
		var ms []recipes.InterProcessLock
		for range 8 {
			ms = append(ms, rw.WriteLock())
		}
		as := w.queue(append(ms, rw.ReadLock())...)
		check("read", 20, 21)
		check("write", 0, 8)
		check("both", 20, 29)
		for _, lease := range reads {
			w.release(lease)
		}
		first := w.wait(as[0])
		check("read", 0, 1)
		check("write", 1, 8)
		check("both", 1, 9)
		down, err := rw.ReadLock().Acquire(first.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		check("read", 1, 2)
		check("write", 1, 8)
		check("both", 2, 10)
		w.release(first)
		check("read", 1, 2)
		check("write", 0, 7)
		check("both", 1, 9)
		w.release(down)
		for _, a := range as[1:] {
			w.release(w.wait(a))
		}
	})
}

// Numbers around the wrap, and at the end of a counter that sticks there.
func TestReadWriteOrderOfNumbers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first int32
		opts  []embedded.Option
	}{
		"wrap":               {2147483645, []embedded.Option{embedded.WithWrappingSequence()}},
		"negative":           {-3, []embedded.Option{embedded.WithWrappingSequence()}},
		"end of the counter": {2147483646, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 { // names are random
				inBubble(t, func(w *world) {
					w.put(w.client(), root)
					if err := w.srv.SetSequence(root, test.first); err != nil {
						t.Fatal(err)
					}
					write, read := w.readWrite().WriteLock(), w.readWrite().ReadLock()
					lease := w.acquire(write)
					as := w.queue(read, read, write, read, write, write, read)
					w.release(lease)
					for _, group := range [][]*attempt{as[:2], as[2:3], as[3:4], as[4:5], as[5:6], as[6:]} {
						for _, a := range group {
							w.wait(a)
						}
						w.settle()
						last := slices.Index(as, group[len(group)-1])
						for _, later := range as[last+1:] {
							if later.returned() {
								t.Error("a later one was granted")
							}
						}
						for _, a := range group {
							w.release(a.lease)
						}
					}
				}, test.opts...)
			}
		})
	}
}

// Both sides hear of requests for them.
func TestReadWriteRevocation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		heard := make(chan *recipes.Lease, 10)
		rw := w.readWrite(recipes.EndWhenRevoked(), recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l }))
		for _, side := range []recipes.InterProcessLock{rw.ReadLock(), rw.WriteLock()} {
			lease := w.acquire(side)
			ctx := lease.Context(w.ctx)
			w.revoke(outsider, lease.Path())
			if got := <-heard; got != lease {
				t.Error("the listener heard of another lease")
			}
			w.settle()
			wantErr(t, "the cause", context.Cause(ctx), recipes.ErrRevoked)
			_, err := rw.ReadLock().Acquire(ctx)
			wantErr(t, "a read lease", err, recipes.ErrRevoked)
			_, err = rw.WriteLock().Acquire(ctx)
			wantErr(t, "a write lease", err, recipes.ErrRevoked)
			w.release(lease)
		}
	})
}

// The loss of a session ends what it holds, and lets the next ones in.
func TestReadWriteSessionLost(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]family{"writer": writers, "reader": readers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, f.of(func(w *world) {
				c := w.client()
				lease := w.acquire(w.lock(c))
				waiting := w.queue(w.rival(w.client()))[0]
				w.returned(lease) // the server lets the next one in before this client can know
				if err := w.srv.ExpireSession(c.Session().ID()); err != nil {
					t.Fatal(err)
				}
				<-lease.Done()
				wantErr(t, "the lease", lease.Err(), recipes.ErrLost, framework.ErrSessionLost)
				next := w.wait(waiting)
				if stat, err := w.clients[1].Exists(w.ctx, lease.Path()); err == nil {
					t.Errorf("the node is still there: %+v", stat)
				}
				wantErr(t, "Release", lease.Release(), recipes.ErrLost)
				w.release(next)
			}))
		})
	}
}

// The standard error policy, on either side.
func TestReadWriteEndWhenUnknown(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]family{"writer": writers, "reader": readers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, f.of(func(w *world) {
				c := w.client()
				lease := w.acquire(w.lock(c, recipes.EndWhenUnknown()))
				w.link(c).refuse(true)
				w.link(c).drop()
				w.settle()
				wantErr(t, "the lease", lease.Err(), recipes.ErrLost)
				w.link(c).refuse(false)
				wantErr(t, "Release", lease.Release(), recipes.ErrLost)
				w.returned(lease)
				w.release(w.acquire(w.rival(w.client())))
			}))
		})
	}
}

func TestReadWriteMalformed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		for name, rw := range map[string]*recipes.InterProcessReadWriteLock{
			"path":   recipes.NewInterProcessReadWriteLock(c, "locks"),
			"client": recipes.NewInterProcessReadWriteLock(nil, root),
			"option": recipes.NewInterProcessReadWriteLock(c, root, nil),
		} {
			for _, side := range []recipes.InterProcessLock{rw.ReadLock(), rw.WriteLock()} {
				if _, err := side.Acquire(w.ctx); err == nil {
					t.Errorf("a malformed %s is accepted", name)
				}
			}
			if rw.Path() != rw.WriteLock().Path() {
				t.Errorf("the path is %q", rw.Path())
			}
		}
		rw := recipes.NewInterProcessReadWriteLock(c, root)
		lease := w.acquire(rw.ReadLock())
		wantErr(t, "another side's lease", rw.WriteLock().Release(lease), recipes.ErrNotHeld)
		if err := rw.ReadLock().Release(lease); err != nil {
			t.Error(err)
		}
		w.returned(lease)
	})
}

var readScenarios = []scenario{
	{name: "free, path missing", cold: true},
	{name: "free"},
	{name: "behind a writer", ahead: 1},
	{name: "behind two writers", ahead: 2},
	{name: "behind a dead one", dead: true},
	{name: "behind a dead and a living one", dead: true, ahead: 1},
	{name: "try, free", try: true},
	{name: "try, held", try: true, ahead: 1},
	{name: "try, behind a dead one", try: true, dead: true},
}

func TestReadLockFaultAtEveryStep(t *testing.T) { strikeEverywhere(t, readers, readScenarios) }

var writeScenarios = []scenario{
	{name: "next in line", ahead: 1},
	{name: "third in line", ahead: 2},
	{name: "behind a dead and a living one", dead: true, ahead: 1},
	{name: "try, held", try: true, ahead: 1},
}

func TestWriteLockFaultAtEveryStep(t *testing.T) {
	for _, f := range []family{writers, writersAmongReaders} {
		t.Run("behind "+f.label, func(t *testing.T) { strikeEverywhere(t, f, writeScenarios) })
	}
}
