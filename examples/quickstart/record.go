package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A turn is one hold of the lock.
type turn struct {
	name    string
	n       int // of the contender's turns
	token   int64
	waited  time.Duration
	granted time.Time
	ended   time.Time // before the release
	next    []string  // who was next in line at the time
}

// A record is what happened, in the order in which it did.
type record struct {
	began time.Time

	mu     sync.Mutex
	out    io.Writer
	turns  []*turn
	crash  *turn     // the one that ended in a crash
	lostAt time.Time // when the crashed contender's lease ended, if that was waited for
}

func newRecord(out io.Writer) *record { return &record{began: time.Now(), out: out} }

func (r *record) granted(name string, n int, token int64, asked time.Time) *turn {
	now := time.Now()
	t := &turn{name: name, n: n, token: token, waited: now.Sub(asked), granted: now}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns = append(r.turns, t)
	return t
}

func (r *record) finished(t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.ended = time.Now()
}

func (r *record) announce(t *turn, next []string, line string) {
	r.mu.Lock()
	t.next = next
	r.mu.Unlock()
	r.say(line)
}

func (r *record) crashed(t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crash = t
}

func (r *record) lost(t *turn, why error) {
	r.mu.Lock()
	r.lostAt = time.Now()
	r.mu.Unlock()
	r.say(fmt.Sprintf("%s's lease has ended by its own clock: %v", t.name, why))
}

// say prints one line with the time since the start.
func (r *record) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%8.3f s  %s\n", time.Since(r.began).Seconds(), line)
}
