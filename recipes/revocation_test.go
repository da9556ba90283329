package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

const granted = 3 * time.Second // to give a lock up: less than a session's timeout

// asker is how this process names itself in a request.
func asker() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// A holder learns who asks, why, and until when; of each request, the plain
// one too, and the line shows it beside what the holder says of itself.
func TestRevocationIsTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		heard := make(chan *recipes.Lease, 100)
		m := w.mutex(recipes.WithData([]byte("the night shift")),
			recipes.WithRevocationListener(func(l *recipes.Lease) { heard <- l }))
		lease := w.acquire(m)
		if r, ok := lease.Revocation(); ok {
			t.Errorf("before any request the lease knows %v", r)
		}
		for i, tc := range []struct {
			opts []recipes.RevokeOption
			want recipes.Revocation
			data string
		}{
			{
				[]recipes.RevokeOption{recipes.WithReason("a \"deploy\"\n of ours"), recipes.WithDeadline(granted)},
				recipes.Revocation{Reason: "a \"deploy\"\n of ours", By: asker(), Deadline: time.Now().Add(granted)},
				"the night shift",
			},
			{
				[]recipes.RevokeOption{recipes.WithReason("still")},
				recipes.Revocation{Reason: "still", By: asker()},
				"the night shift",
			},
			{
				[]recipes.RevokeOption{recipes.WithDeadline(granted + time.Microsecond)},
				recipes.Revocation{By: asker(), Deadline: time.Now().Add(granted + time.Millisecond)},
				"the night shift",
			},
			{nil, recipes.Revocation{}, "__REVOKE__"},
			{
				[]recipes.RevokeOption{recipes.WithReason("again")},
				recipes.Revocation{Reason: "again", By: asker()},
				"__REVOKE__",
			},
		} {
			w.revoke(outsider, lease.Path(), tc.opts...)
			<-heard
			got, ok := lease.Revocation()
			same := got.Deadline.Equal(tc.want.Deadline)
			if got.Deadline = tc.want.Deadline; !ok || !same || got != tc.want {
				t.Errorf("%d: the lease knows %+v, %v, deadline right: %v; want %+v", i, got, ok, same, tc.want)
			}
			line, err := m.Participants(w.ctx)
			if err != nil || len(line) != 1 || line[0].Revocation == nil ||
				line[0].Revocation.Reason != tc.want.Reason || string(line[0].Data) != tc.data {
				t.Errorf("%d: in line are %+v, %v", i, line, err)
			}
			_, err = recipes.NewInterProcessMutex(outsider, root).TryAcquire(w.ctx)
			wantErr(t, "TryAcquire", err, recipes.ErrHeld)
			if !strings.Contains(err.Error(), tc.data) || strings.Contains(err.Error(), "granted_ms") {
				t.Errorf("%d: TryAcquire says %v", i, err)
			}
		}
		w.settle()
		if len(heard) > 0 {
			t.Errorf("the listener was called %d times more than there were requests", len(heard))
		}
		w.release(lease)
	})
}

// Whatever follows the marker's line is a request, at worst a plain one; and
// nothing in it makes a holder believe in what cannot be.
func TestRevocationOfStrangeForm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		m, heard := w.heardOf(w.client())
		lease := w.acquire(m)
		for data, want := range map[string]recipes.Revocation{
			"__REVOKE__\n":         {},
			"__REVOKE__\nplease":   {},
			"__REVOKE__\n\x00\xff": {},
			"__REVOKE__\n[1]":      {},
			`__REVOKE__` + "\n" + `{"granted_ms":-5,"reason":"r","new":1}`:                {Reason: "r"},
			`__REVOKE__` + "\n" + `{"granted_ms":9000000000000000000,"by":"b"}`:           {By: "b"},
			`__REVOKE__` + "\n" + `{"granted_ms":1e300}`:                                  {},
			`__REVOKE__` + "\n" + `{"reason":"` + strings.Repeat("r", 100<<10) + `"}`:     {},
			`__REVOKE__` + "\n" + `{"reason":"` + strings.Repeat("r", 2<<10) + `"}`:       {Reason: strings.Repeat("r", 1<<10)},
			`__REVOKE__` + "\n" + `{"reason":"twice"}` + "\n" + `{"reason":"is no form"}`: {},
		} {
			if _, err := outsider.Set(w.ctx, lease.Path(), []byte(data), framework.AnyVersion); err != nil {
				t.Fatal(err)
			}
			<-heard
			if got, ok := lease.Revocation(); !ok || got != want {
				t.Errorf("%.60q is %.200v, %v", data, got, ok)
			}
		}
		w.release(lease)
	})
}

func TestRevokeRefusesOptions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		log := w.requests(isWork)
		defer log.stop()
		for name, opts := range map[string][]recipes.RevokeOption{
			"nil":                      {nil},
			"force without a deadline": {recipes.WithForce()},
			"no time":                  {recipes.WithDeadline(0)},
			"less than no time":        {recipes.WithDeadline(-1), recipes.WithDeadline(1)},
			"for ever":                 {recipes.WithDeadline(1 << 62)},
			"a novel":                  {recipes.WithReason(strings.Repeat("x", 1025))},
		} {
			wantErr(t, name, recipes.Revoke(w.ctx, c, root+"/lock-0000000000", opts...), framework.ErrInvalidOption)
		}
		if ops := log.ops(); len(ops) > 0 {
			t.Errorf("the server was asked: %v", ops)
		}
		for _, data := range []string{"__REVOKE__", "__REVOKE__\n", "__REVOKE__\n{}"} {
			_, err := w.mutex(recipes.WithData([]byte(data))).Acquire(w.ctx)
			wantErr(t, "data that is a request", err, framework.ErrInvalidOption)
		}
	})
}

// Data that is too large to go along, or that may not be read, is written over.
func TestRevocationCarriesWhatItCan(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		m := w.mutex(recipes.WithData(make([]byte, 5<<10)))
		lease := w.acquire(m)
		w.settle()
		const noAuth = -102
		check := func() {
			t.Helper()
			w.settle()
			r, _ := lease.Revocation()
			line, err := m.Participants(w.ctx)
			if err != nil || string(line[0].Data) != "__REVOKE__" || r.Reason != "why" {
				t.Errorf("in line are %+v, %v, the lease knows %v", line, err, r)
			}
		}
		w.revoke(outsider, lease.Path(), recipes.WithReason("why"))
		check()
		stop := w.srv.OnRequest(of(outsider, op("getData")).answer(noAuth))
		w.revoke(outsider, lease.Path(), recipes.WithReason("why"))
		stop()
		check()
		w.release(lease)

		empty := recipes.NewInterProcessMutex(outsider, root, recipes.WithData(nil))
		lease = w.acquire(empty)
		w.revoke(outsider, lease.Path(), recipes.WithReason("why"))
		w.settle()
		line, err := empty.Participants(w.ctx)
		if err != nil || len(line[0].Data) != 0 {
			t.Errorf("in line are %+v, %v, one of which said nothing", line, err)
		}
		w.release(lease)
	})
}

func TestEndWhenRevokedTellsWhy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex(recipes.EndWhenRevoked()))
		w.revoke(w.clients[0], lease.Path(), recipes.WithReason("deploy of v7"))
		<-lease.Done()
		wantErr(t, "the lease", lease.Err(), recipes.ErrRevoked)
		if s := lease.Err().Error(); !strings.Contains(s, `"deploy of v7"`) || !strings.Contains(s, asker()) {
			t.Errorf("the lease says %s", s)
		}
		w.release(lease)
		if lease.State() != recipes.LeaseRevoked {
			t.Errorf("in the end the lease is %v", lease.State())
		}
	})
}

// force asks by force on a goroutine.
func (w *world) force(c *framework.Client, path string, opts ...recipes.RevokeOption) *forcing {
	ctx, cancel := context.WithCancel(w.ctx)
	f := &forcing{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = recipes.Revoke(ctx, c, path, append(opts, recipes.WithDeadline(granted), recipes.WithForce())...)
		f.at = time.Now()
	}()
	return f
}

type forcing struct {
	err    error
	at     time.Time
	done   chan struct{}
	cancel context.CancelFunc
}

// The lock is taken from one who does not give it up, exactly at the deadline,
// and its lease says so.
func TestForce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		m, heard := w.heardOf(w.client())
		lease := w.acquire(m)
		ctx := lease.Context(w.ctx)
		waiting := w.queue(w.mutex())[0]
		w.returned(lease) // another may be granted before this one knows
		began := time.Now()
		f := w.force(outsider, lease.Path(), recipes.WithReason("stuck"))
		<-heard
		if r, _ := lease.Revocation(); !r.Forced {
			t.Errorf("the holder heard %+v", r)
		}
		<-f.done
		if f.err != nil || !f.at.Equal(began.Add(granted)) {
			t.Errorf("Revoke returned after %v, %v", f.at.Sub(began), f.err)
		}
		next := w.wait(waiting)
		w.settle()
		wantErr(t, "the context", context.Cause(ctx), recipes.ErrLost)
		err := lease.Release()
		wantErr(t, "Release", err, recipes.ErrLost)
		if errors.Is(err, recipes.ErrRevoked) || lease.State() != recipes.LeaseLost ||
			!strings.Contains(err.Error(), "forced") || !strings.Contains(err.Error(), `"stuck"`) {
			t.Errorf("the lease is %v: %v", lease.State(), err)
		}
		w.release(next)
	})
}

// One who gives the lock up in time ends the requester's wait, which costs no
// more than a watch.
func TestForceIsNotNeeded(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(w *world, lease *recipes.Lease){
		"released": func(w *world, lease *recipes.Lease) { w.release(lease) },
		"deleted by another": func(w *world, lease *recipes.Lease) {
			w.remove(w.clients[0], lease.Path())
			w.returned(lease)
		},
		"expired": func(w *world, lease *recipes.Lease) {
			if err := w.srv.ExpireSession(lease.Session().ID()); err != nil {
				t.Error(err)
			}
			w.returned(lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				outsider := w.client()
				lease := w.acquire(w.mutex())
				w.settle()
				log := w.requests(of(outsider, isWork))
				defer log.stop()
				f := w.force(outsider, lease.Path())
				time.Sleep(granted / 2)
				if ops := strings.Join(log.ops(), " "); ops != "getData setData exists" {
					t.Errorf("the requester asked %s", ops)
				}
				began := time.Now()
				giveUp(w, lease)
				<-f.done
				if f.err != nil || f.at.Sub(began) > moment {
					t.Errorf("Revoke returned after %v, %v", f.at.Sub(began), f.err)
				}
				w.release(w.acquire(w.mutex()))
			})
		})
	}
}

// A lease that ended at the request is closed to others until the release; if
// that takes too long, it is lost.
func TestForceAfterRevoked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		lease := w.acquire(w.mutex(recipes.EndWhenRevoked()))
		f := w.force(outsider, lease.Path())
		<-lease.Done()
		if lease.State() != recipes.LeaseRevoked {
			t.Errorf("before the deadline the lease is %v", lease.State())
		}
		<-f.done
		w.settle()
		if f.err != nil || lease.State() != recipes.LeaseLost {
			t.Errorf("Revoke: %v; the lease is %v", f.err, lease.State())
		}
		wantErr(t, "the lease", lease.Err(), recipes.ErrRevoked)
		wantErr(t, "Release", lease.Release(), recipes.ErrLost)
		w.returned(lease)

		lease = w.acquire(w.mutex(recipes.EndWhenRevoked()))
		w.revoke(outsider, lease.Path())
		<-lease.Done()
		if err := w.srv.ExpireSession(lease.Session().ID()); err != nil {
			t.Error(err)
		}
		<-lease.Session().Context().Done()
		if lease.State() != recipes.LeaseLost {
			t.Errorf("with its session gone the revoked lease is %v", lease.State())
		}
		wantErr(t, "Release", lease.Release(), recipes.ErrLost, framework.ErrSessionLost)
		w.returned(lease)
	})
}

// One who waits loses no more than the place.
func TestForceAWaiter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		holder := w.acquire(w.mutex())
		as := w.queue(w.mutex())
		victim := w.last(outsider)
		as = append(as, w.queue(w.mutex())...)
		if f := w.force(outsider, victim); true {
			<-f.done
			if f.err != nil {
				t.Fatal(f.err)
			}
		}
		w.settle()
		w.release(holder)
		w.release(w.wait(as[1]))
		lease := w.wait(as[0])
		if r, ok := lease.Revocation(); ok {
			t.Errorf("one that was sent to the end of the line has a request: %v", r)
		}
		w.release(lease)
	})
}

// Each fault, at each request that the requester sends: never is the lock
// taken before its time, the holder hears the request once, and what the
// requester is told is true.
func TestForceFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		if f.deletes {
			continue // the requester has no node
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			atEveryStep(t, 4, func(step int) (struck bool) {
				inBubble(t, func(w *world) { struck = w.forceWithFault(step, f) })
				return struck
			})
		})
	}
}

func (w *world) forceWithFault(step int, f fault) (struck bool) {
	c, holds := w.client(), w.client()
	m, heard := w.heardOf(holds)
	lease := w.acquire(m)
	w.settle()
	s := &strike{world: w}
	var asked atomic.Int64 // nanoseconds since began
	began := time.Now()
	defer w.srv.OnReply(op("setData").then(func() { asked.Store(int64(time.Since(began))) }))()
	forcing := &forcing{}
	returned := make(chan struct{})
	s.returned = returned
	s.cancel = func() { forcing.cancel() }
	ctx, cancel := context.WithCancel(w.ctx)
	forcing.cancel = cancel
	defer cancel()
	defer w.arm(step, f, s, &struck, holds.Session().ID(), isWork)()

	err := recipes.Revoke(ctx, c, lease.Path(), recipes.WithReason("why"), recipes.WithDeadline(granted), recipes.WithForce())
	close(returned)
	took := time.Since(began) - time.Duration(asked.Load())
	what := fmt.Sprintf("step %d: Revoke", step)
	switch {
	case err == nil:
		w.settle()
		wantErr(w, what+": the lease", lease.Err(), recipes.ErrLost)
		if len(heard) != 1 {
			w.Errorf("%s: the holder heard %d requests", what, len(heard))
		}
		if took < granted || took > granted+3*sessionTimeout {
			w.Errorf("%s: the lock was taken after %v", what, took)
		}
	case f.cancels:
		wantErr(w, what, err, context.Canceled)
	default:
		w.Errorf("%s: %v", what, err)
	}
	time.Sleep(soon)
	_ = lease.Release()
	w.returned(lease)
	w.release(w.acquire(m))
	w.srv.Unsilence()
	return struck
}

// The deadline passes while the requester has no connection: the lock is
// taken when it has one again.
func TestForceOutlastsOutage(t *testing.T) {
	t.Parallel()
	for _, outage := range []time.Duration{2 * granted, 3 * sessionTimeout} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				outsider := w.client()
				lease := w.acquire(w.mutex())
				f := w.force(outsider, lease.Path())
				w.settle()
				w.link(outsider).refuse(true)
				w.link(outsider).drop()
				time.Sleep(outage)
				if lease.Err() != nil {
					t.Errorf("the lock was taken by one without a connection: %v", lease.Err())
				}
				w.link(outsider).refuse(false)
				began := time.Now()
				<-f.done
				w.settle()
				if took := f.at.Sub(began); f.err != nil || took > soon || lease.Err() == nil {
					t.Errorf("Revoke returned after %v, %v; the lease has error %v", took, f.err, lease.Err())
				}
				w.returned(lease)
			})
		})
	}
}

// Another holder's node of the same name is not taken for the one that was
// asked: Curator's unprotected recipes, or a path that was removed in between.
func TestForceThatVeryNode(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(w *world, outsider *framework.Client, swap func()){
		"before the wait": func(w *world, outsider *framework.Client, swap func()) {
			w.Cleanup(w.srv.OnRequest(of(outsider, op("exists")).once(swap)))
		},
		"in the wait, unseen": func(w *world, outsider *framework.Client, swap func()) {
			time.AfterFunc(granted/2, func() {
				w.link(outsider).drop()
				swap()
			})
		},
		"right before the deletion": func(w *world, outsider *framework.Client, swap func()) {
			w.Cleanup(w.srv.OnRequest(of(outsider, op("delete")).once(swap)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				outsider, c := w.client(), w.client()
				const path = root + "/lock-0000000000"
				w.put(c, path)
				replace(w, outsider, func() {
					w.remove(c, path)
					w.put(c, path)
				})
				f := w.force(outsider, path)
				<-f.done
				if _, err := c.Exists(w.ctx, path); err != nil || f.err != nil {
					t.Errorf("the other node: %v; Revoke: %v", err, f.err)
				}
			})
		})
	}
}

// A server that is behind the others has not seen the node yet. It is not
// taken for gone.
func TestForceDoesNotBelieveALaggard(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		lease := w.acquire(w.mutex())
		const noNode = -101
		behind := true
		stop := w.srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "sync" {
				behind = false
			}
			if r.Op == "exists" && behind {
				return embedded.Answer(noNode)
			}
			return embedded.Pass
		})
		defer stop()
		began := time.Now()
		f := w.force(outsider, lease.Path())
		<-f.done
		if took := f.at.Sub(began); f.err != nil || took != granted {
			t.Errorf("Revoke returned after %v, %v", took, f.err)
		}
		w.settle()
		w.returned(lease)
	})
}

// What the server forbids ends the call; the holder stays.
func TestForceIsForbidden(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []string{"setData", "delete"} {
		t.Run(forbidden, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				outsider := w.client()
				lease := w.acquire(w.mutex())
				const noAuth = -102
				defer w.srv.OnRequest(of(outsider, op(forbidden)).answer(noAuth))()
				f := w.force(outsider, lease.Path())
				<-f.done
				wantErr(t, "Revoke", f.err, framework.ErrNoAuth)
				w.release(lease)
			})
		})
	}
}

// A requester that gives up, or is closed, has asked and no more.
func TestForceGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		m, heard := w.heardOf(w.client())
		lease := w.acquire(m)
		f := w.force(outsider, lease.Path())
		time.Sleep(granted / 2)
		f.cancel()
		<-f.done
		wantErr(t, "Revoke", f.err, context.Canceled)
		f = w.force(outsider, lease.Path())
		time.Sleep(granted / 2)
		outsider.Close()
		<-f.done
		wantErr(t, "Revoke", f.err, recipes.ErrClosed)
		time.Sleep(2 * granted)
		if len(heard) != 2 {
			t.Errorf("the holder heard %d requests", len(heard))
		}
		w.release(lease)
	})
}
