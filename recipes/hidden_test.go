package recipes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// secretive returns a client whose contenders nobody else may read.
func (w *world) secretive() *framework.Client {
	w.Helper()
	return w.client(framework.WithAuth("digest", []byte("app:secret")),
		framework.WithACLProvider(func(path string) []framework.ACL {
			_, name := framework.SplitPath(path)
			if slices.ContainsFunc([]string{"lock-", "__READ__", "__WRIT__"}, func(label string) bool { return strings.Contains(name, label) }) {
				return framework.AuthACL(framework.PermAll)
			}
			return framework.WorldACL(framework.PermAll)
		}))
}

// Who may not read a node is not told of its deletion. That does not keep it
// from standing behind it, for as long as it may list the line.
func TestBehindWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	ends := map[string]func(w *world, lease *recipes.Lease){
		"released": (*world).release,
		"expired":  (*world).expire,
		"deleted": func(w *world, lease *recipes.Lease) {
			w.returned(lease) // the two hear of it at one moment
			w.remove(w.clients[0], lease.Path())
		},
	}
	for _, f := range []family{mutexes, writers, readers, writersAmongReaders} {
		for name, end := range ends {
			t.Run(f.name+", "+f.label+"/"+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, f.of(func(w *world) {
					w.client()
					holder := w.acquire(w.rival(w.secretive()))
					_, err := w.fresh().TryAcquire(w.ctx)
					wantErr(w, "TryAcquire", err, recipes.ErrHeld)
					a := w.queue(w.fresh())[0]
					passing, cancel := context.WithTimeout(w.ctx, soon)
					_, err = w.rival(w.client()).Acquire(passing) // the line changes, behind it
					cancel()
					wantErr(w, "Acquire", err, context.DeadlineExceeded)
					if a.returned() {
						w.Errorf("did not wait: %v", a.err)
					}
					began := time.Now()
					end(w, holder)
					w.release(w.wait(a))
					if took := a.at.Sub(began); took > moment {
						w.Errorf("let in after %v", took)
					}
					if n := strings.Count(w.log.String(), "may not be read"); n != 2 { // by two lock values
						w.Errorf("the log tells %d times", n)
					}
				}))
			})
		}
	}
}

// The same of one further ahead, and in the line of those who want permits.
func TestBehindManyThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	for _, f := range []family{mutexes, semaphoreMutexes, writers} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, f.of(func(w *world) {
				holder := w.acquire(w.fresh())
				c := w.secretive()
				as := w.queue(w.lock(c), w.lock(c), w.fresh(), w.lock(w.secretive()))
				w.link(c).drop()
				time.Sleep(soon)
				as[0].cancel()
				w.settle()
				began := time.Now()
				w.release(holder)
				for _, a := range as[1:] {
					w.release(w.wait(a))
				}
				if took := time.Since(began); took > moment {
					w.Errorf("it took %v", took)
				}
				wantErr(w, "Acquire", as[0].err, context.Canceled)
			}))
		})
	}
}

// Nobody is waited for who is not alive, even if his node may not be read.
func TestBehindADeadOneThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.put(w.secretive(), root+"/_c_dead-lock-", framework.WithMode(framework.PersistentSequential))
		w.passes()
		w.release(w.acquire(w.mutex()))
	})
}
