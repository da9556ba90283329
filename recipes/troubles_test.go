package recipes_test

// What docs/troubleshooting.md says, one test for each trouble: it builds the
// situation and applies the cure.

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A superuser, to whom no ACL applies.
const (
	superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // of the password
	superAuth   = "super:secret"
)

// super returns a client of the superuser.
func (w *world) super() *framework.Client {
	w.Helper()
	return w.client(framework.WithAuth("digest", []byte(superAuth)))
}

// passes checks that the lock at root goes from one client to another.
func (w *world) passes() {
	w.Helper()
	holder := w.acquire(w.mutex())
	waiting := w.queue(w.mutex())[0]
	w.release(holder)
	w.release(w.wait(waiting))
}

// within returns a context that ends soon.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	return ctx
}

func logs(t testing.TB, w *world, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(w.log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, w.log.String())
		}
	}
}

// A worker's ID lies in the lock's root, where it sorts before all contenders:
// a lock that takes the lowest child for the holder can never be acquired.
func TestTroubleWorkerIDInTheRoot(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"0", "0000000000", "workid", "worker-0000000000", "_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-worker-0000000000"} {
		for _, mode := range []framework.Mode{framework.Persistent, framework.Ephemeral} {
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					worker := w.client()
					w.put(worker, root+"/"+name, framework.WithMode(mode))
					w.passes()
					logs(t, w, "ignoring a child that takes no part in the lock", root+"/"+name)
					wantText(t, w.explain(w.mutex()), fmt.Sprintf("foreign: %q", name))
					if err := worker.Close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// The worker's node was ephemeral and went with its session when the network
// was away; its path, below which it lay, was not, and stayed in the root. If
// the path has a contender's name, it is one whom nobody alive owns.
func TestTroubleWorkerGoneItsPathStays(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"worker-0000000000": "foreign: \"worker-0000000000\"",
		"lock-0000000000":   "dead: lock-0000000000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				c := w.client()
				path := root + "/" + name
				w.put(c, path)
				w.put(c, path+"/node", framework.WithMode(framework.Ephemeral))
				m := recipes.NewInterProcessMutex(c, root)
				lease := w.acquire(m)

				w.link(c).refuse(true)
				w.link(c).drop()
				<-lease.Done()
				w.returned(lease)
				wantErr(t, "the lease", lease.Err(), recipes.ErrLost)
				w.link(c).refuse(false)
				time.Sleep(2 * sessionTimeout)
				if _, ok := w.srv.Node(path + "/node"); ok {
					t.Fatal("the worker's node is still there")
				}
				if _, ok := w.srv.Node(path); !ok {
					t.Fatal("its path is gone, too")
				}
				w.release(w.acquire(m))
				w.passes()

				// The cure: what is named is deleted, for the sake of other clients.
				e := w.explain(m)
				wantText(t, e, says)
				for _, child := range append(e.Foreign, namesOf(e.Dead)...) {
					if err := c.Delete(w.ctx, root+"/"+child, framework.AnyVersion, framework.WithChildren()); err != nil {
						t.Error(err)
					}
				}
				wantText(t, w.explain(m), "free\n")
				if e := w.explain(m); len(e.Foreign)+len(e.Dead) > 0 {
					t.Errorf("still there: %v", e)
				}
			})
		})
	}
}

func namesOf(ps []recipes.Participant) []string {
	var names []string
	for _, p := range ps {
		names = append(names, p.Name)
	}
	return names
}

// Contenders' nodes that did not go with their sessions, since an old server
// stored them as persistent nodes.
func TestTroubleEphemeralNodesThatStay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		for range 3 {
			w.put(c, root+"/_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-lock-", framework.WithMode(framework.PersistentSequential))
		}
		w.passes()
		logs(t, w, "skipping a dead contender: its node is not ephemeral")
		ps, err := recipes.NewInterProcessMutex(c, root).Participants(w.ctx)
		if err != nil || len(ps) != 3 {
			t.Fatalf("Participants: %v, %v", ps, err)
		}
		for _, p := range ps {
			if !p.Dead || p.Holder {
				t.Errorf("a dead one: %+v", p)
			}
			if err := c.Delete(w.ctx, p.Path, framework.AnyVersion); err != nil {
				t.Error(err)
			}
		}
		w.passes()
	})
}

// The servers' clock is a month ahead of the client's. Only what people read
// tells: neither the loss of a lease nor the grant to the next goes by it.
func TestTroubleClocksApart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		const apart = 30 * 24 * time.Hour
		w.srv.Advance(apart) // before there are sessions
		c := w.client()
		lease := w.acquire(recipes.NewInterProcessMutex(c, root))
		waiting := w.queue(w.mutex())[0]
		ps, err := w.mutex().Participants(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if ahead := time.Until(ps[0].Since); ahead < apart-time.Minute || ahead > apart {
			t.Errorf("the servers' clock is %v ahead of the client's, want %v", ahead, apart)
		}
		time.Sleep(10 * sessionTimeout)
		if lease.Err() != nil || waiting.returned() {
			t.Fatalf("the lease did not last: %v", lease.Err())
		}
		cut := time.Now()
		w.link(c).refuse(true)
		w.link(c).drop()
		<-lease.Done()
		lost := time.Since(cut)
		w.returned(lease)
		next := w.wait(waiting)
		granted := waiting.at.Sub(cut)
		if lost >= granted || lost < sessionTimeout/2 || granted > 2*sessionTimeout {
			t.Errorf("lost after %v, granted to the next after %v", lost, granted)
		}
		w.release(next)
		w.link(c).refuse(false)
	})
}

// Nobody has the password any more by which the lock's path may be used.
func TestTroubleOnlySuperMayEnter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		gone := w.client(framework.WithAuth("digest", []byte("gone:forgotten")))
		w.put(gone, root, framework.WithACL(framework.AuthACL(framework.PermAll)...))
		w.put(gone, root+"/lock-0000000000", framework.WithACL(framework.AuthACL(framework.PermAll)...))

		m := w.mutex()
		_, err := m.Acquire(w.within(sessionTimeout))
		wantErr(t, "Acquire", err, framework.ErrNoAuth)
		_, err = m.Explain(w.ctx)
		wantErr(t, "Explain", err, framework.ErrNoAuth)

		// Who may, is for all to read who may do that; the superuser may in any case.
		super := w.super()
		acl, stat, err := super.GetACL(w.ctx, root)
		if err != nil || len(acl) != 1 || !strings.HasPrefix(acl[0].ID, "gone:") {
			t.Fatalf("GetACL: %v, %v", acl, err)
		}
		if _, err := super.SetACL(w.ctx, root, framework.WorldACL(framework.PermAll), stat.ACLVersion); err != nil {
			t.Fatal(err)
		}
		// A node that nobody may read, and nobody alive owns, is in nobody's way.
		w.release(w.acquire(m))
		logs(t, w, "may not be read", root+"/lock-0000000000")
		wantText(t, w.explain(m), "dead: lock-0000000000")
		if err := super.Delete(w.ctx, root+"/lock-0000000000", framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		w.passes()
	}, embedded.WithSuper(superDigest))
}

// A server that has no containers, or does not know an operation at all.
func TestTroubleOldServer(t *testing.T) {
	t.Parallel()
	t.Run("no containers", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(w *world) {
			w.passes()
			logs(t, w, "the server has no containers: parents will be persistent")
			if node, ok := w.srv.Node(root); !ok || node.Mode != "persistent" {
				t.Errorf("the lock's path is %+v", node)
			}
			_, err := w.client().Create(w.ctx, "/ttl", nil, framework.TTL(time.Minute))
			wantErr(t, "a TTL node", err, framework.ErrUnimplemented)
		}, embedded.WithoutContainers())
	})
	t.Run("no create2", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(w *world) {
			const unimplemented = -6
			defer w.srv.OnRequest(matcher(op("create2")).answer(unimplemented))()
			_, err := w.mutex().Acquire(w.within(sessionTimeout))
			wantErr(t, "Acquire", err, framework.ErrUnimplemented)
		})
	})
}

// The counter of the lock's path has come to its end, and all later contenders
// have the same number.
func TestTroubleCounterAtItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		w.put(c, root)
		if err := w.srv.SetSequence(root, math.MaxInt32-1); err != nil {
			t.Fatal(err)
		}
		m := recipes.NewInterProcessMutex(c, root)
		wantText(t, w.explain(m), "counter: 2147483646, 1 before its end")
		w.passes()
		wantText(t, w.explain(m), "counter: at its end")
		w.passes() // slower, and still one at a time
		holder := w.acquire(m)
		waiting := w.queue(w.mutex(), w.mutex())
		w.release(holder)
		for _, a := range waiting {
			w.release(w.wait(a))
		}
		logs(t, w, "the path's counter is at its end")

		// The cure, when nobody uses it: a delete fails while anybody does.
		holder = w.acquire(m)
		wantErr(t, "deleting it in use", c.Delete(w.ctx, root, framework.AnyVersion), framework.ErrNotEmpty)
		w.release(holder)
		w.remove(c, root)
		w.release(w.acquire(m))
		if e := w.explain(m); e.Next > 10 {
			t.Errorf("the next number is %d", e.Next)
		}
	})
}

// The holder's process is alive, its session too, and it does not release.
func TestTroubleHungHolder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		hung := w.acquire(recipes.NewInterProcessMutex(c, root, recipes.WithData([]byte("web-3:4711"))))
		m := w.mutex()
		_, err := m.Acquire(w.within(10 * sessionTimeout))
		wantErr(t, "Acquire", err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), hung.Path()) || !strings.Contains(err.Error(), "web-3:4711") {
			t.Errorf("the error does not say who holds the lock: %v", err)
		}
		w.settle() // its contender goes in the background
		waiting := w.queue(m)[0]
		admin := w.client()
		e := w.explain(recipes.NewInterProcessMutex(admin, root))
		if len(e.Holders) != 1 || string(e.Holders[0].Data) != "web-3:4711" {
			t.Fatalf("Explain: %v", e)
		}
		holder := e.Holders[0]
		// A request that it does not listen to changes nothing.
		if err := recipes.Revoke(w.ctx, admin, holder.Path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sessionTimeout)
		if waiting.returned() || hung.Err() != nil {
			t.Fatalf("a request took the lock away: %v", hung.Err())
		}
		// By force: the lease ends, the next one is let in, and what the old
		// holder still writes is refused by a resource that compares tokens.
		check := hung.Check()
		w.returned(hung) // the next one may hear of it first
		if err := recipes.Revoke(w.ctx, admin, holder.Path,
			recipes.WithReason("hangs since noon"), recipes.WithDeadline(10*time.Second), recipes.WithForce()); err != nil {
			t.Fatal(err)
		}
		next := w.wait(waiting)
		w.settle()
		wantErr(t, "the lease that was taken away", hung.Err(), recipes.ErrLost)
		if !strings.Contains(hung.Err().Error(), "hangs since noon") {
			t.Errorf("the lease does not say why: %v", hung.Err())
		}
		if next.Token() <= hung.Token() {
			t.Errorf("token %#x after %#x", next.Token(), hung.Token())
		}
		_, err = c.Multi(w.ctx, check)
		wantErr(t, "a write of the old holder", err, recipes.ErrLost)
		w.release(next)
	})
}

// A process waits for what it holds itself: the lease's context was not passed
// on.
func TestTroubleWaitsForItself(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		err := m.Do(w.ctx, func(ctx context.Context, lease *recipes.Lease) error {
			_, err := m.Acquire(w.within(soon)) // not ctx
			wantErr(t, "Acquire with another context", err, context.DeadlineExceeded)
			if err != nil && !strings.Contains(err.Error(), "held by this client") {
				t.Errorf("the error does not say who holds: %v", err)
			}
			logs(t, w, "was the lease's context passed on?")
			wantText(t, w.explain(m), ", this client")
			return m.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
		})
		if err != nil {
			t.Errorf("with the lease's context: %v", err)
		}
	})
}

// No server answers: Acquire waits, and says in the end why.
func TestTroubleNoServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client(impatient()...)
		w.link(c).refuse(true)
		w.link(c).drop()
		m := recipes.NewInterProcessMutex(c, root)
		_, err := m.Acquire(w.within(3 * sessionTimeout))
		wantErr(t, "Acquire", err, context.DeadlineExceeded)
		_, err2 := m.TryAcquire(w.ctx)
		wantErr(t, "TryAcquire", err2, framework.ErrConnectionLoss)
		all := []error{err, err2}
		for kind, make := range roots() {
			_, err := make(c, "/ids/"+kind).Next(w.within(3 * sessionTimeout))
			wantErr(t, kind, err, context.DeadlineExceeded)
			all = append(all, err)
		}
		ids := recipes.NewSnowflake(recipes.NewWorkerIDs(c, "/ids/snowflake", recipes.WithLayout(earlyLayout())))
		_, err3 := ids.Next(w.within(3 * sessionTimeout))
		wantErr(t, "Snowflake", err3, context.DeadlineExceeded)
		all = append(all, err3, ids.Start(w.within(3*sessionTimeout)))
		for _, err := range all {
			if !strings.Contains(fmt.Sprint(err), "the last connection failed: connection refused") {
				t.Errorf("the error does not say why there is no connection: %v", err)
			}
		}
		w.link(c).refuse(false)
		w.release(w.acquire(m))
	})
}

// The servers stand still, with their connections open, as if stopped. The
// holder stops in time all the same, and all goes on when they do.
func TestTroubleServersStandStill(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		lease := w.acquire(w.mutex())
		w.returned(lease)
		began := time.Now()
		w.srv.Freeze()
		<-lease.Done()
		if took := time.Since(began); took > sessionTimeout {
			t.Errorf("the lease was lost after %v", took)
		}
		wantErr(t, "the lease", lease.Err(), recipes.ErrLost, framework.ErrSessionLost)
		c := w.clients[0]
		waiting := w.attempt(recipes.NewInterProcessMutex(c, root))
		time.Sleep(5 * sessionTimeout)
		if waiting.returned() {
			t.Fatalf("Acquire returned: %v", waiting.err)
		}
		w.srv.Unfreeze()
		w.release(w.wait(waiting))
	})
}

// The servers have the last word on the session timeout.
func TestTroubleSessionTimeoutIsAnother(t *testing.T) {
	t.Parallel()
	for asked, granted := range map[time.Duration]time.Duration{
		time.Second: 4 * time.Second, 10 * time.Second: 10 * time.Second, time.Hour: 40 * time.Second,
	} {
		t.Run(asked.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) { // ticks of 2 s
				c := w.client(framework.WithSessionTimeout(asked))
				lease := w.acquire(recipes.NewInterProcessMutex(c, root))
				if got := lease.Session().Timeout(); got != granted {
					t.Errorf("asked for %v, the session has %v, want %v", asked, got, granted)
				}
				w.returned(lease)
				began := time.Now()
				w.link(c).refuse(true)
				w.link(c).drop()
				<-lease.Done()
				if took := time.Since(began); took > granted {
					t.Errorf("the lease was lost after %v, want within %v", took, granted)
				}
				w.link(c).refuse(false)
				time.Sleep(2 * granted)
			})
		})
	}
}

// The client may not make the lock's path. Once somebody has made it, it need
// have no right on what lies above.
func TestTroubleNoRightsOnParents(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		admin := w.client(framework.WithAuth("digest", []byte("admin:secret")))
		w.put(admin, "/locks", framework.WithACL(framework.AuthACL(framework.PermAll)...))
		m := w.mutex()
		_, err := m.Acquire(w.within(sessionTimeout))
		wantErr(t, "Acquire", err, framework.ErrNoAuth)
		if !strings.Contains(err.Error(), "making the parent "+root+":") {
			t.Errorf("the error does not name the node that may not be made: %v", err)
		}
		w.put(admin, root, framework.WithACL(framework.WorldACL(framework.PermAll)...))
		w.passes()
	})
}

// The chroot does not exist: it is made with the lock's path.
func TestTroubleNoChroot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.servers = below{w.srv, "/app/prod"}
		m := w.mutex()
		wantText(t, w.explain(m), "lock /app/prod"+root+": free, the path does not exist")
		w.passes()
		if _, ok := w.srv.Node("/app/prod" + root); !ok {
			t.Errorf("the lock's path is elsewhere:\n%s", w.srv.Dump())
		}
	})
}

// A quota that the servers enforce leaves no room for a contender.
func TestTroubleQuota(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		admin := w.client()
		w.put(admin, root)
		limit := func(nodes int) []byte {
			return fmt.Appendf(nil, "count=-1,bytes=-1;byteHardLimit=-1;countHardLimit=%d", nodes)
		}
		quota := "/zookeeper/quota/locks/zookeeper_"
		for what, data := range map[string][]byte{"limits": limit(3), "stats": nil} {
			if _, err := admin.Create(w.ctx, quota+what, data, framework.WithParents()); err != nil {
				t.Fatal(err)
			}
		}
		holder := w.acquire(w.mutex()) // the third node, with /locks and the lock's path
		_, err := w.mutex().Acquire(w.within(sessionTimeout))
		wantErr(t, "Acquire", err, framework.ErrQuotaExceeded)
		if _, err := admin.Set(w.ctx, quota+"limits", limit(10), framework.AnyVersion); err != nil {
			t.Fatal(err)
		}
		w.release(holder)
		w.passes()
	}, embedded.WithEnforcedQuotas())
}

// The page names tests that exist, and leaves none of this file out.
func TestTroubleshootingNamesItsTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests, troubles []string
	for _, file := range files {
		found := submatches(t, file, `(?m)^func (Test\w+)\(t `)
		tests = append(tests, found...)
		if file == "troubles_test.go" {
			troubles = found
		}
	}
	named := submatches(t, "../docs/troubleshooting.md", "`(Test\\w+)[`/]")
	if len(named) < 10 || len(troubles) < 10 {
		t.Errorf("the page names %q, of %q", named, troubles)
	}
	for _, name := range named {
		if !slices.Contains(tests, name) {
			t.Errorf("docs/troubleshooting.md names %s, which does not exist", name)
		}
	}
	for _, name := range troubles {
		if name != t.Name() && !slices.Contains(named, name) {
			t.Errorf("docs/troubleshooting.md does not name %s", name)
		}
	}
}

// submatches returns what the pattern's group matches in a file.
func submatches(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}
