package recipes_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/recipes"
)

// Ten thousand cycles, and as many attempts on a lock that is held, over TCP:
// neither sockets nor goroutines nor memory pile up, in the client or in the
// server, which is in this process, too.
//
// It counts what the whole process has, so that it cannot be parallel.
func TestNothingPilesUp(t *testing.T) {
	times := 10_000
	if testing.Short() {
		times = 3000
	}
	const (
		callers = 20
		perTime = 32 // bytes of heap: about a small object and what refers to it
	)
	for name, once := range map[string]func(w *world, m *recipes.InterProcessMutex, i int){
		"cycles": func(w *world, m *recipes.InterProcessMutex, _ int) {
			lease, err := m.Acquire(w.ctx)
			if err != nil {
				w.Error(err)
				return
			}
			if err := lease.Release(); err != nil {
				w.Error(err)
			}
		},
		"attempts": func(w *world, m *recipes.InterProcessMutex, i int) {
			if i%10 == 0 {
				_, err := m.TryAcquire(w.ctx)
				wantErr(w, "TryAcquire", err, recipes.ErrHeld)
				return
			}
			ctx, cancel := context.WithTimeout(w.ctx, time.Duration(i%10)*time.Millisecond/4)
			defer cancel()
			_, err := m.Acquire(ctx)
			wantErr(w, "Acquire", err, context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, err := embedded.Start()
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			address, err := srv.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			servers, err := ensemble.NewFixed(address.String())
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, servers, 20*time.Second)
			defer w.closeClients()
			c := w.client()
			var holder *recipes.Lease
			if name == "attempts" {
				holder = w.acquire(w.mutex())
			}
			do := func(times int) {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						m := recipes.NewInterProcessMutex(c, root)
						for i := range times / callers {
							once(w, m, i)
						}
					})
				}
				all.Wait()
				w.eventually("nobody is in line", func() bool { return len(w.children(c, root)) == srv.WatchCount() })
			}
			do(times / 10) // what is there once is there then
			before := measure()
			do(times)
			var after usage
			w.eventually("sockets and goroutines are as before", func() bool {
				after = measure()
				return after.sockets == before.sockets && after.goroutines <= before.goroutines
			})
			grown := after.heap - before.heap
			t.Logf("%d times, %d sockets, %d goroutines, %+d bytes of heap", times, after.sockets, after.goroutines, grown)
			if grown > int64(times*perTime) {
				t.Errorf("after %d times the heap has %d bytes more, %d for each", times, grown, grown/int64(times))
			}
			if holder != nil {
				w.release(holder)
			}
		})
	}
}

// usage is what a process uses.
type usage struct {
	sockets, goroutines int
	heap                int64
}

func measure() usage {
	for range 3 { // what finalizers and pools hold on to goes with the next ones
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{sockets: sockets(), goroutines: runtime.NumGoroutine(), heap: int64(m.HeapAlloc)}
}

// sockets returns how many sockets this process has open, 0 where the system
// does not tell.
func sockets() int {
	const dir = "/proc/self/fd/"
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, f := range files {
		if to, err := os.Readlink(dir + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
