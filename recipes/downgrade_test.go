package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
	"github.com/batonzk/baton/retry"
)

// downgrade acquires the read lock with a context of a write lease.
func (w *world) downgrade(read *recipes.ReadLock, writing *recipes.Lease) *recipes.Lease {
	w.Helper()
	reading, err := read.Acquire(writing.Context(w.ctx))
	if err != nil {
		w.Fatalf("the writer may not read: %v", err)
	}
	w.granted(root, reading)
	return reading
}

// A writer becomes a reader in one round trip. It keeps the token, and the
// writers behind it out; readers behind it come in once it writes no more.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		rw := recipes.NewInterProcessReadWriteLock(c, root)
		writing := w.acquire(rw.WriteLock())
		as := w.queue(w.readWrite().ReadLock(), w.readWrite().WriteLock(), w.readWrite().ReadLock())
		w.link(c).latency.Store(int64(roundTrip))
		began := time.Now()
		reading := w.downgrade(rw.ReadLock(), writing)
		if took := time.Since(began); took != roundTrip {
			t.Errorf("the downgrade took %v, want one round trip of %v", took, roundTrip)
		}
		if reading.Token() != writing.Token() || reading.Session() != writing.Session() {
			t.Errorf("the reader has token %#x, the writer %#x", reading.Token(), writing.Token())
		}
		_, err := c.Multi(w.ctx, reading.Check(), writing.Check())
		if err != nil {
			t.Errorf("Check: %v", err)
		}
		w.settle()
		if as[0].returned() {
			t.Error("a reader was granted beside a writer")
		}
		w.release(writing)
		w.wait(as[0])
		time.Sleep(soon)
		if as[1].returned() || as[2].returned() || reading.Err() != nil {
			t.Errorf("a writer was granted beside a reader that it was queued behind: %v", reading.Err())
		}
		w.release(as[0].lease)
		time.Sleep(soon)
		if as[1].returned() {
			t.Error("a writer was granted beside a reader that was a writer ahead of it")
		}
		w.release(reading)
		w.release(w.wait(as[1]))
		w.release(w.wait(as[2]))
	})
}

// A writer next in line that has seen nobody ahead but a writer does not
// know of the reader that this one becomes. So the writer's deletion alone is
// not its turn.
func TestWriterWaitsForTheReaderThatAWriterBecame(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		writing := w.acquire(rw.WriteLock())
		waiting := w.queue(w.readWrite().WriteLock())[0]
		reading := w.downgrade(rw.ReadLock(), writing)
		w.release(writing)
		time.Sleep(soon)
		if waiting.returned() {
			t.Error("a writer was granted beside a reader")
		}
		w.release(reading)
		w.release(w.wait(waiting))
	})
}

// A read lease that was got from a write lease may be given back first, and
// be had again.
func TestDowngradeAgainAndAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		rw := w.readWrite()
		writing := w.acquire(rw.WriteLock())
		waiting := w.queue(w.readWrite().WriteLock())[0]
		for range 3 {
			first, second := w.downgrade(rw.ReadLock(), writing), w.downgrade(rw.ReadLock(), writing)
			if first.Path() == second.Path() {
				t.Error("two calls that do not know of one another share a hold")
			}
			w.release(first)
			w.release(second)
		}
		try, err := rw.ReadLock().TryAcquire(writing.Context(w.ctx))
		if err != nil {
			t.Fatal(err)
		}
		w.release(try)
		err = rw.ReadLock().Do(writing.Context(w.ctx), func(ctx context.Context, reading *recipes.Lease) error {
			w.release(writing)
			return reading.Err()
		})
		if err != nil {
			t.Errorf("Do: %v", err)
		}
		w.release(w.wait(waiting))
	})
}

// The writer's node is not there when the reader's is made, or looked for.
// Then the writer has lost the lock, and the reader gets nothing.
func TestDowngradeOfALostWriter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		op  string
		all bool // the root too
	}{
		"before the create":                {op: "create2"},
		"between create and list":          {op: "getChildren2"},
		"before the create, with its root": {op: "create2", all: true},
	} {
		for _, try := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					outsider, c := w.client(), w.client()
					rw := recipes.NewInterProcessReadWriteLock(c, root)
					writing := w.acquire(rw.WriteLock())
					w.settle()
					// The guard of the write lease is not to hear of it first.
					defer w.srv.OnRequest(of(c, op(test.op)).once(func() {
						w.srv.Silence(c.Session().ID())
						w.remove(outsider, writing.Path())
						if test.all {
							w.remove(outsider, root)
						}
						w.srv.Unsilence()
					}))()
					acquire := rw.ReadLock().Acquire
					if try {
						acquire = rw.ReadLock().TryAcquire
					}
					_, err := acquire(writing.Context(w.ctx))
					wantErr(t, "Acquire", err, recipes.ErrLost)
					wantErr(t, "the writer", writing.Err(), recipes.ErrLost)
					w.shortly("no node is left", func() bool { return len(w.ephemerals()) == 0 })
					wantErr(t, "Release", writing.Release(), recipes.ErrLost)
					w.returned(writing)
				})
			})
		}
	}
}

// The reader's node is deleted before it is listed: the writer still has the
// place, and another node gets it.
func TestDowngradedNodeDeleted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider, c := w.client(), w.client()
		rw := recipes.NewInterProcessReadWriteLock(c, root)
		writing := w.acquire(rw.WriteLock())
		waiting := w.queue(w.readWrite().WriteLock())[0]
		defer w.srv.OnRequest(of(c, op("getChildren2")).once(func() { w.remove(outsider, w.last(outsider)) }))()
		reading := w.downgrade(rw.ReadLock(), writing)
		w.release(writing)
		time.Sleep(soon)
		if waiting.returned() {
			t.Error("a writer was granted beside a reader")
		}
		w.release(reading)
		w.release(w.wait(waiting))
	})
}

// The writer releases while another goroutine acquires the read lock with its
// context: the one that comes too late gets nothing, and no writer comes in
// beside one that gets it.
func TestDowngradeWhileReleasing(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"context ends": false, "context goes on": true} {
		for _, at := range []string{"create2", "getChildren2", "delete"} {
			t.Run(name+"/"+at, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					c := w.client()
					rw := recipes.NewInterProcessReadWriteLock(c, root)
					writing := w.acquire(rw.WriteLock())
					next := w.queue(w.readWrite().WriteLock())[0]
					ctx := writing.Context(w.ctx)
					if detached {
						ctx = context.WithoutCancel(ctx)
					}
					released := make(chan struct{})
					release := func() {
						defer close(released)
						w.release(writing)
					}
					// The request of the one goroutine is held until the other has
					// sent its own.
					if at == "delete" {
						go release()
					} else {
						defer w.srv.OnRequest(of(c, op(at)).once(func() {
							go release()
							time.Sleep(moment)
						}))()
					}
					reading, err := rw.ReadLock().Acquire(ctx)
					<-released
					if err == nil {
						w.granted(root, reading)
						time.Sleep(soon)
						w.release(reading)
					} else {
						wantErr(t, "Acquire", err, recipes.ErrReleased)
					}
					w.release(w.wait(next))
				})
			})
		}
	}
}

// A context of a writer that is no more gets what became of that.
func TestDowngradeWithADeadLease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(w *world, c *framework.Client, lease *recipes.Lease)
		want error
	}{
		"released": {func(w *world, _ *framework.Client, l *recipes.Lease) { w.release(l) }, recipes.ErrReleased},
		"revoked": {func(w *world, _ *framework.Client, l *recipes.Lease) {
			w.revoke(w.clients[0], l.Path())
			<-l.Done()
		}, recipes.ErrRevoked},
		"deleted": {func(w *world, _ *framework.Client, l *recipes.Lease) {
			w.remove(w.clients[0], l.Path())
			<-l.Done()
		}, recipes.ErrLost},
		"session lost": {func(w *world, c *framework.Client, l *recipes.Lease) {
			_ = w.srv.ExpireSession(c.Session().ID())
			<-l.Done()
		}, recipes.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.client() // the outsider
				c := w.client()
				rw := recipes.NewInterProcessReadWriteLock(c, root, recipes.EndWhenRevoked())
				lease := w.acquire(rw.WriteLock())
				ctx := lease.Context(w.ctx)
				log := w.requests(op("create2"))
				test.end(w, c, lease)
				for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
					_, err := rw.ReadLock().Acquire(ctx)
					wantErr(t, "Acquire", err, test.want)
					_, err = rw.ReadLock().TryAcquire(ctx)
					wantErr(t, "TryAcquire", err, test.want)
				}
				if len(log.ops()) > 0 {
					t.Error("a node was made")
				}
				if err := lease.Release(); !errors.Is(err, lease.Err()) && err != nil {
					t.Errorf("Release: %v", err)
				}
				w.returned(lease)
			})
		})
	}
}

// Where the counter sticks at its end, all numbers are equal and the reader
// would stand behind those who wait for the writer. It is told so.
func TestDowngradeAtTheEndOfTheCounter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.put(w.client(), root)
		if err := w.srv.SetSequence(root, 2147483647); err != nil {
			t.Fatal(err)
		}
		rw := w.readWrite()
		writing := w.acquire(rw.WriteLock())
		waiting := w.queue(w.readWrite().WriteLock())[0]
		w.settle()
		log := w.requests(op("create2"))
		_, err := rw.ReadLock().Acquire(writing.Context(w.ctx))
		if err == nil || !strings.Contains(err.Error(), "counter is at its end") {
			t.Errorf("Acquire: %v", err)
		}
		if len(log.ops()) > 0 || writing.Err() != nil {
			t.Errorf("a node was made, or the writer ended: %v", writing.Err())
		}
		w.release(writing)
		w.release(w.wait(waiting))
	})
}

// Numbers that are written with a sign, and on either side of the wrap.
func TestDowngradeOfNegativeNumbers(t *testing.T) {
	t.Parallel()
	for _, number := range []struct {
		seq  int32
		text string
	}{{-2147483648, "-2147483648"}, {-7, "-000000007"}, {2147483646, "2147483646"}} {
		inBubble(t, func(w *world) {
			w.put(w.client(), root)
			if err := w.srv.SetSequence(root, number.seq); err != nil {
				t.Fatal(err)
			}
			rw := w.readWrite()
			writing := w.acquire(rw.WriteLock())
			as := w.queue(w.readWrite().ReadLock(), w.readWrite().WriteLock())
			reading := w.downgrade(rw.ReadLock(), writing)
			if !strings.HasSuffix(reading.Path(), "-__READ__"+number.text) {
				t.Errorf("the reader of number %s is %s", number.text, reading.Path())
			}
			w.release(writing)
			w.release(w.wait(as[0]))
			time.Sleep(soon)
			if as[1].returned() {
				t.Error("a writer was granted beside a reader")
			}
			w.release(reading)
			w.release(w.wait(as[1]))
		}, embedded.WithWrappingSequence())
	}
}

// A downgrade outlasts a time without servers, and ends with the session.
func TestDowngradeOutage(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]time.Duration{"short": sessionTimeout / 4, "too long": 2 * sessionTimeout} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client(framework.WithRetry(retry.NTimes(1, 10*time.Millisecond)), framework.WithConnectionTimeout(50*time.Millisecond))
				rw := recipes.NewInterProcessReadWriteLock(c, root)
				writing := w.acquire(rw.WriteLock())
				w.link(c).refuse(true)
				w.link(c).drop()
				time.AfterFunc(length, func() { w.link(c).refuse(false) })
				_, err := rw.ReadLock().TryAcquire(writing.Context(w.ctx))
				wantErr(t, "TryAcquire", err, framework.ErrConnectionLoss)
				began := time.Now()
				reading, err := rw.ReadLock().Acquire(writing.Context(w.ctx))
				if took := time.Since(began); took > sessionTimeout {
					t.Errorf("Acquire took %v", took)
				}
				if length < sessionTimeout {
					if err != nil {
						t.Fatal(err)
					}
					w.release(writing)
					w.release(reading)
					return
				}
				wantErr(t, "Acquire", err, recipes.ErrLost, framework.ErrSessionLost)
				wantErr(t, "Release", writing.Release(), recipes.ErrLost)
				w.returned(writing)
				time.Sleep(length)
			})
		})
	}
}

// A downgrade that waits for a connection ends with the writer's lease, also
// if its context does not: when the session is lost, before the server knows,
// and when the connection is what the lease ends with.
func TestDowngradeEndsWithTheWriter(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]recipes.Option{
		"session":    nil,
		"connection": {recipes.EndWhenUnknown()},
	} {
		for outage, again := range map[string]bool{"back at once": true, "back later": false} {
			t.Run(name+"/"+outage, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					c := w.client(framework.WithRetry(retry.NTimes(1, 10*time.Millisecond)), framework.WithConnectionTimeout(50*time.Millisecond))
					writing := w.acquire(recipes.NewInterProcessReadWriteLock(c, root, opts...).WriteLock())
					ctx := context.WithoutCancel(writing.Context(w.ctx))
					w.link(c).refuse(true)
					w.link(c).drop()
					reading := make(chan error)
					go func() {
						_, err := w.readers(c).Acquire(ctx)
						reading <- err
					}()
					<-writing.Done()
					if again {
						w.link(c).refuse(false)
					}
					select {
					case err := <-reading:
						wantErr(t, "Acquire", err, recipes.ErrLost)
					case <-time.After(sessionTimeout):
						t.Error("Acquire goes on without its writer")
						w.link(c).refuse(false)
						<-reading
					}
					w.link(c).refuse(false)
					wantErr(t, "Release", writing.Release(), recipes.ErrLost)
					w.returned(writing)
					w.release(w.acquire(w.readWrite().WriteLock()))
				})
			})
		}
	}
}

// becomeReader is what the client under test does: it writes, becomes a
// reader, and returns that lease.
func becomeReader(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error) {
	read := w.readers(w.clients[0])
	return w.become(ctx, m.Acquire, read.Acquire, func() {})
}

// becomeReaderBefore is becomeReader with another writer in line.
func becomeReaderBefore(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error) {
	read := w.readers(w.clients[0])
	return w.become(ctx, m.Acquire, read.Acquire, func() {
		go func() { w.release(w.acquire(w.rival(w.clients[1], w.options...))) }()
		time.Sleep(moment)
	})
}

func tryBecomeReader(ctx context.Context, w *world, m recipes.InterProcessLock) (*recipes.Lease, error) {
	read := w.readers(w.clients[0])
	return w.become(ctx, m.TryAcquire, read.TryAcquire, func() {})
}

func (w *world) readers(c *framework.Client) *recipes.ReadLock {
	return recipes.NewInterProcessReadWriteLock(c, root, w.options...).ReadLock()
}

type acquire func(ctx context.Context) (*recipes.Lease, error)

func (w *world) become(ctx context.Context, write, read acquire, meanwhile func()) (*recipes.Lease, error) {
	writing, err := write(ctx)
	if err != nil {
		return nil, err
	}
	meanwhile()
	// A fault may hold the release up until this has returned.
	defer func() { go func() { _ = writing.Release() }() }()
	return read(writing.Context(ctx))
}

// Each fault, at each request of a writer that becomes a reader.
func TestDowngradeFaultAtEveryStep(t *testing.T) {
	strikeEverywhere(t, writers, []scenario{
		{name: "alone", do: becomeReader, loses: true},
		{name: "after another", do: becomeReader, loses: true, ahead: 1},
		{name: "before another", do: becomeReaderBefore, loses: true, passes: true},
		{name: "try", do: tryBecomeReader, loses: true, try: true},
		{name: "with a grace", do: becomeReader, loses: true, grace: grace},
		{name: "with a grace, before another", do: becomeReaderBefore, loses: true, passes: true, grace: grace},
	})
}
