package recipes_test

import (
	"testing"
	"time"

	"github.com/batonzk/baton/recipes"
)

func (w *world) gracefulReadWrite() *recipes.InterProcessReadWriteLock {
	w.Helper()
	return w.readWrite(recipes.GraceAfterCrash(grace))
}

// took checks how long ago began was.
func (w *world) took(what string, began time.Time, want time.Duration) {
	w.Helper()
	if took := time.Since(began); took != want {
		w.Errorf("%s after %v, want %v", what, took, want)
	}
}

// A reader that fails has written nothing: other readers go on, and new ones
// come in at once. A writer waits for the grace, and clears the marker away.
func TestGraceOfReaderIsForWriters(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.client()
		beside := w.acquire(w.gracefulReadWrite().ReadLock())
		failed := w.acquire(w.gracefulReadWrite().ReadLock())
		w.expire(failed)
		began := time.Now()
		for _, try := range []bool{false, true} {
			read := w.gracefulReadWrite().ReadLock()
			if !try {
				w.release(w.acquire(read))
				continue
			}
			lease, err := read.TryAcquire(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			w.release(lease)
		}
		if beside.Err() != nil {
			t.Errorf("another reader: %v", beside.Err())
		}
		w.release(beside)
		w.took("the readers have gone on", began, 0)
		w.checkMarkers(1)
		w.release(w.acquire(w.gracefulReadWrite().WriteLock()))
		w.took("a writer was let in", began, grace)
		w.checkMarkers(0)
	})
}

// The grace of a writer is over for all readers behind it at once, whoever of
// them clears the marker away; a writer behind them need not wait for another.
func TestGraceOfWriterIsForAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.client()
		failed := w.acquire(w.gracefulReadWrite().WriteLock())
		as := w.queue(w.gracefulReadWrite().ReadLock(), w.gracefulReadWrite().ReadLock(),
			w.gracefulReadWrite().ReadLock(), w.gracefulReadWrite().WriteLock())
		w.expire(failed)
		began := time.Now()
		for _, a := range as[:3] {
			w.wait(a)
			w.took("a reader was let in", began, grace)
		}
		w.checkMarkers(3)
		for _, a := range as[:3] {
			w.release(a.lease)
		}
		w.release(w.wait(as[3]))
		w.took("the writer was let in", began, grace)
		w.checkMarkers(0)
	})
}

// Markers outlive the lock's path, and with it the numbers. One with the number
// that a reader has now is not that of the writer that it was.
func TestGraceOfRecreatedRoot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.client()
		failed := w.acquire(w.gracefulReadWrite().WriteLock())
		w.expire(failed)
		w.remove(w.clients[0], root)
		began := time.Now()
		reading := w.acquire(w.gracefulReadWrite().ReadLock())
		if a, b := failed.Path(), reading.Path(); a[len(a)-10:] != b[len(b)-10:] {
			t.Fatalf("the reader is %s, no namesake of %s", b, a)
		}
		w.took("a reader was let in", began, grace)
		w.release(reading)
		w.checkMarkers(0)
	})
}

// A writer that goes on as a reader is closed out by nobody's failure, and fails
// as what it is at that moment: as a reader once it has released the write
// lock, as both until then.
func TestGraceOfDowngrade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		released bool
		reader   time.Duration // that a reader waits
		try      bool
	}{
		"as a reader":                {released: true},
		"as both":                    {reader: grace},
		"as a reader, after TryLock": {released: true, try: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(w *world) {
				w.client()
				rw := w.gracefulReadWrite()
				read := rw.ReadLock()
				writing := w.acquire(rw.WriteLock())
				began := time.Now()
				acquire := read.Acquire
				if tc.try {
					acquire = read.TryAcquire
				}
				reading, err := acquire(writing.Context(w.ctx))
				if err != nil {
					t.Fatal(err)
				}
				w.took("the writer became a reader", began, 0)
				w.checkMarkers(2)
				if tc.released {
					w.release(writing)
					w.checkMarkers(1)
				}
				w.expire(reading)
				began = time.Now()
				w.release(w.acquire(w.gracefulReadWrite().ReadLock()))
				w.took("a reader was let in", began, tc.reader)
				began = time.Now()
				w.release(w.acquire(w.gracefulReadWrite().WriteLock()))
				w.took("a writer was let in", began, grace)
				if !tc.released {
					wantErr(t, "Release", writing.Release(), recipes.ErrLost)
				}
				w.checkMarkers(0)
			})
		})
	}
}

// Nobody can have held since the writer came, who has waited for those before:
// so a marker that it could not delete does not keep it from reading.
func TestGraceSparesTheWriterThatReads(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.client()
		const noAuth = -102
		failed := w.acquire(w.gracefulReadWrite().WriteLock())
		w.expire(failed)
		forbid := w.srv.OnRequest(onMarkers("multi").answer(noAuth))
		rw := w.gracefulReadWrite()
		writing := w.acquire(rw.WriteLock())
		began := time.Now()
		reading := w.downgrade(rw.ReadLock(), writing)
		w.took("the writer became a reader", began, 0)
		forbid()
		w.release(writing)
		w.release(reading)
		w.checkMarkers(1)
		w.release(w.acquire(rw.WriteLock()))
		w.checkMarkers(0)
	})
}
