package recipes_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// What the two sides of a read-write lock have to do with each other, on any
// server.
var readWriteConformance = map[string]func(w *world){
	"order":                conformSides,
	"downgrade":            conformDowngrade,
	"upgrade":              conformUpgrade,
	"readers give up":      conformReadersGiveUp,
	"crowd of readers":     conformReaders,
	"downgrade, reconnect": conformDowngradeReconnect,
	"contention":           conformReadersAndWriters,
}

func conformSides(w *world) {
	write, read := w.readWrite().WriteLock(), w.readWrite().ReadLock()
	lease := w.acquire(write)
	as := w.queue(read, write, read, read)
	for _, group := range [][]*attempt{as[:1], as[1:2], as[2:]} {
		if group[0].returned() {
			w.Error("granted while another holds")
		}
		w.release(lease)
		for _, a := range group {
			lease = w.wait(a)
		}
		for _, a := range group[:len(group)-1] {
			w.release(a.lease)
		}
	}
	w.release(lease)
}

func conformDowngrade(w *world) {
	rw := w.readWrite()
	writing := w.acquire(rw.WriteLock())
	as := w.queue(w.readWrite().ReadLock(), w.readWrite().WriteLock())
	reading := w.downgrade(rw.ReadLock(), writing)
	w.release(writing)
	w.release(w.wait(as[0]))
	w.settle()
	if as[1].returned() {
		w.Error("a writer was granted beside a reader")
	}
	w.release(reading)
	w.release(w.wait(as[1]))
}

func conformUpgrade(w *world) {
	rw := w.readWrite()
	reading := w.acquire(rw.ReadLock())
	_, err := rw.WriteLock().Acquire(reading.Context(w.ctx))
	wantErr(w, "Acquire", err, recipes.ErrDeadlock)
	w.release(reading)
	w.release(w.acquire(rw.WriteLock()))
}

func conformReadersGiveUp(w *world) {
	lease := w.acquire(w.readWrite().WriteLock())
	as := w.queue(w.readWrite().ReadLock(), w.readWrite().WriteLock(), w.readWrite().ReadLock())
	for _, i := range []int{1, 0} {
		as[i].cancel()
		<-as[i].done
		wantErr(w, "Acquire", as[i].err, context.Canceled)
	}
	w.release(lease)
	w.release(w.wait(as[2]))
}

// Readers of a few sessions wait for one writer, and come in together.
func conformReaders(w *world) {
	const n = 100
	long := framework.WithSessionTimeout(5 * w.timeout) // it is about numbers, on machines that may be slow
	observer := w.client(long)
	writing := w.acquire(writeLock(observer, root))
	reads := []recipes.InterProcessLock{readLock(w.client(long), root), readLock(w.client(long), root)}
	as := make([]*attempt, n)
	for i := range as {
		as[i] = w.attempt(reads[i%len(reads)])
	}
	w.eventually("all stand in line", func() bool { return len(w.children(observer, root)) == n+1 })
	w.release(writing)
	for _, a := range as {
		w.wait(a)
	}
	for _, a := range as {
		w.release(a.lease)
	}
}

func conformDowngradeReconnect(w *world) {
	c := w.client()
	rw := recipes.NewInterProcessReadWriteLock(c, root)
	for range 5 {
		writing := w.acquire(rw.WriteLock())
		next := w.queue(w.readWrite().WriteLock())[0]
		w.link(c).drop()
		reading := w.downgrade(rw.ReadLock(), writing)
		w.link(c).drop()
		w.release(writing)
		w.settle()
		if next.returned() {
			w.Error("a writer was granted beside a reader")
		}
		w.release(reading)
		w.release(w.wait(next))
	}
}

// Readers and writers, some of whom become readers, come and go, give up, and
// lose their connections. That none overlap that must not is checked at each
// grant; here, by a resource too.
func conformReadersAndWriters(w *world) {
	const clients, each, rounds = 4, 4, 10
	var held resource
	var done sync.WaitGroup
	for n := range clients * each {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		if n%each == 0 {
			w.client()
		}
		c := w.clients[len(w.clients)-1]
		rw := recipes.NewInterProcessReadWriteLock(c, root)
		done.Add(1)
		go func() {
			defer done.Done()
			for range rounds {
				ctx, cancel := context.WithTimeout(w.ctx, w.timeout*time.Duration(rng.IntN(8)+1)/20)
				w.readOrWrite(ctx, rw, rng, &held)
				cancel()
				if rng.IntN(8) == 0 {
					w.link(c).drop()
				}
			}
		}()
	}
	done.Wait()
}

// readOrWrite is one turn of a contender.
func (w *world) readOrWrite(ctx context.Context, rw *recipes.InterProcessReadWriteLock, rng *rand.Rand, held *resource) {
	short := func() { time.Sleep(w.timeout * time.Duration(rng.IntN(5)) / 1000) }
	if rng.IntN(3) > 0 {
		lease, err := rw.ReadLock().Acquire(ctx)
		if err != nil {
			wantErr(w, "Acquire", err, context.DeadlineExceeded)
			return
		}
		w.granted(root, lease)
		held.read(w)
		short()
		held.readEnd()
		w.release(lease)
		return
	}
	writing, err := rw.WriteLock().Acquire(ctx)
	if err != nil {
		wantErr(w, "Acquire", err, context.DeadlineExceeded)
		return
	}
	w.granted(root, writing)
	held.write(w)
	short()
	if rng.IntN(2) == 0 {
		held.writeEnd()
		w.release(writing)
		return
	}
	reading := w.downgrade(rw.ReadLock(), writing)
	held.writeEnd()
	held.read(w)
	w.release(writing)
	short()
	held.readEnd()
	w.release(reading)
}

// A resource says who uses it.
type resource struct {
	mu      sync.Mutex
	readers int
	writers int
}

func (r *resource) read(w *world) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writers > 0 {
		w.Errorf("a reader beside %d writers", r.writers)
	}
	r.readers++
}

func (r *resource) readEnd() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readers--
}

func (r *resource) write(w *world) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readers > 0 || r.writers > 0 {
		w.Errorf("a writer beside %d readers and %d writers", r.readers, r.writers)
	}
	r.writers++
}

func (r *resource) writeEnd() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers--
}
