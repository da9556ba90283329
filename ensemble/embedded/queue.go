package embedded

import "sync"

const (
	// replyLimit is how many bytes may wait for a client that does not read
	// before no more of its requests are taken.
	replyLimit = 512 << 10
	// batchLimit is about how many bytes are given to one write.
	batchLimit = 128 << 10
)

// A queue holds the frames on their way to one client. Frames go in under the
// lock of the server, which makes their order that of the transactions; they
// go out in the connection's writer. Putting frames in never blocks.
type queue struct {
	limit    int // how many bytes may wait before the connection is closed: nothing can hold events back
	mu       sync.Mutex
	changed  sync.Cond // of anything below
	slots    []*slot
	bytes    int
	finished bool // nothing more will come
	closed   bool // nothing more shall be sent
}

// A slot is the place of one frame in a queue. A slot that was reserved holds
// up all that is behind it until it is filled.
type slot struct {
	frame []byte
	ready bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.changed.L = &q.mu
	return q
}

// push appends a frame. It reports false if more is waiting than may.
func (q *queue) push(frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.append(&slot{frame: frame, ready: true})
	return q.bytes <= q.limit || len(q.slots) == 1
}

// reserve appends a place for a frame that is not there yet.
func (q *queue) reserve() *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	sl := new(slot)
	q.append(sl)
	return sl
}

// fill puts a frame into a reserved place; nil leaves it empty.
func (q *queue) fill(sl *slot, frame []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sl.frame, sl.ready = frame, true
	q.bytes += len(frame)
	q.changed.Broadcast()
}

func (q *queue) append(sl *slot) {
	if q.finished || q.closed {
		return
	}
	q.slots = append(q.slots, sl)
	q.bytes += len(sl.frame)
	q.changed.Broadcast()
}

// take waits for frames that are ready and appends some to buf. It is not ok
// if none will come.
func (q *queue) take(buf []byte) (_ []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		n := 0
		for n < len(q.slots) && q.slots[n].ready && len(buf) < batchLimit {
			buf = append(buf, q.slots[n].frame...)
			q.bytes -= len(q.slots[n].frame)
			n++
		}
		if n > 0 {
			clear(q.slots[:n])
			q.slots = q.slots[n:]
			q.changed.Broadcast()
			return buf, true
		}
		if q.finished {
			return nil, false
		}
		q.changed.Wait()
	}
	return nil, false
}

// drain waits until the client has taken enough of its replies to send
// another request.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes > min(replyLimit, q.limit) && !q.closed {
		q.changed.Wait()
	}
}

// finish says that nothing more will come.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.changed.Broadcast()
}

// close throws away what is waiting.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.slots, q.bytes = nil, 0
	q.changed.Broadcast()
}
