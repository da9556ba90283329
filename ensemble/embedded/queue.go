package embedded

import (
	"sync"
	"sync/atomic"
)

const (
	// replyLimit is how many bytes may wait for a client that does not read
	// before no more of its requests are taken.
	replyLimit = 512 << 10
	// flushedBytes is how many may wait while there are requests at hand.
	flushedBytes = 64 << 10
	// segmentBytes is about how many bytes are given to one write.
	segmentBytes = 128 << 10
	// keptBuffer is the size of a buffer up to which it is used again.
	keptBuffer = 2 * segmentBytes
)

// A queue holds the frames on their way to one client. Frames go in under the
// lock of the server, which makes their order that of the transactions.
// Putting frames in never blocks. Whoever takes them out has the turn to write
// until they are written: the connection's reader when it has nothing else to
// do, which saves a switch of goroutines, else its writer.
type queue struct {
	limit    int      // how many bytes may wait before the connection is closed: nothing can hold events back
	all      *backlog // this queue's and all others'
	mu       sync.Mutex
	filled   sync.Cond // the writer waits for something to write
	emptied  sync.Cond // the reader waits until less is waiting
	segments []segment
	spare    []byte // to be used for the next segment
	bytes    int    // waiting or being written
	writing  bool   // somebody has the turn
	woken    bool   // the writer was told, and has not come yet
	finished bool   // nothing more will come
	closed   bool   // nothing more shall be sent
}

// queueLimits are how many bytes may wait for clients to read them.
type queueLimits struct{ connection, total int }

// A backlog is what waits in all queues of a server.
type backlog struct {
	limit   int64
	bytes   atomic.Int64
	crowded chan struct{} // gets a value when there is more than limit
}

func newBacklog(limit int) *backlog {
	return &backlog{limit: int64(limit), crowded: make(chan struct{}, 1)}
}

// add accounts for n bytes more, or less.
func (b *backlog) add(n int) {
	if b.bytes.Add(int64(n)) > b.limit && n > 0 {
		select {
		case b.crowded <- struct{}{}:
		default:
		}
	}
}

// over reports whether more waits than may.
func (b *backlog) over() bool { return b.bytes.Load() > b.limit }

// A segment is some frames, or the place of one that is not there yet and
// holds up all that is behind it.
type segment struct {
	frames []byte
	slot   *slot
}

// A slot is a reserved place.
type slot struct {
	frame []byte
	ready bool
}

func newQueue(limit int, all *backlog) *queue {
	q := &queue{limit: limit, all: all}
	q.filled.L, q.emptied.L = &q.mu, &q.mu
	return q
}

// push appends a frame, which it copies. It reports false if more is waiting
// than may. Unless it is told that the reader will flush, the writer wakes.
func (q *queue) push(frame []byte, flushed bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.finished || q.closed {
		return true
	}
	first := q.bytes == 0
	if n := len(q.segments); n > 0 && q.segments[n-1].slot == nil && len(q.segments[n-1].frames) < segmentBytes {
		last := &q.segments[n-1]
		last.frames = append(last.frames, frame...)
	} else {
		q.segments = append(q.segments, segment{frames: append(q.spare[:0], frame...)})
		q.spare = nil
	}
	q.bytes += len(frame)
	q.all.add(len(frame))
	if !flushed && !q.writing && !q.woken {
		q.woken = true
		q.filled.Signal()
	}
	return first || q.bytes <= q.limit
}

// reserve appends a place for a frame that is not there yet.
func (q *queue) reserve() *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	sl := new(slot)
	if !q.finished && !q.closed {
		q.segments = append(q.segments, segment{slot: sl})
	}
	return sl
}

// fill puts a frame into a reserved place; nil leaves it empty.
func (q *queue) fill(sl *slot, frame []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sl.frame, sl.ready = frame, true
	if q.closed {
		return
	}
	q.bytes += len(frame)
	q.all.add(len(frame))
	q.filled.Signal()
}

// ready reports whether there is something to be written. Caller holds mu.
func (q *queue) ready() bool {
	return len(q.segments) > 0 && (q.segments[0].slot == nil || q.segments[0].slot.ready)
}

// grab returns what is ready, and the turn to write it, if the turn is free.
// wrote gives the turn back.
func (q *queue) grab() (frames []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.writing || !q.ready() {
		return nil, false
	}
	return q.next(), true
}

// take is grab, but waits. It is not ok if nothing more will come.
func (q *queue) take() (frames []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		switch {
		case !q.writing && q.ready():
			return q.next(), true
		case !q.writing && q.finished:
			return nil, false
		}
		q.filled.Wait()
	}
	return nil, false
}

// next takes the first segment, and the turn. Caller holds mu.
func (q *queue) next() []byte {
	s := q.segments[0]
	q.segments[0] = segment{}
	if q.segments = q.segments[1:]; len(q.segments) == 0 {
		q.segments = nil
	}
	q.writing, q.woken = true, false
	if s.slot != nil {
		s.frames = s.slot.frame
	}
	return s.frames
}

// wrote gives the turn to write back, and the buffer. The writer need not know:
// who had the turn looks once more whether anything is ready.
func (q *queue) wrote(frames []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing = false
	if !q.closed {
		q.bytes -= len(frames)
		q.all.add(-len(frames))
	}
	if cap(frames) <= keptBuffer {
		q.spare = frames
	}
	q.emptied.Signal()
}

// waiting returns how many bytes wait.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// full reports whether so much is waiting that it should be written.
func (q *queue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > min(flushedBytes, q.limit)
}

// drain waits until the client has taken enough of its replies to send
// another request.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > min(replyLimit, q.limit) && !q.closed {
		q.emptied.Wait()
	}
}

// finish says that nothing more will come.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.filled.Signal()
}

// close throws away what is waiting.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.all.add(-q.bytes)
	q.segments, q.spare, q.bytes = nil, nil, 0
	q.filled.Signal()
	q.emptied.Signal()
}
