package recipes

import (
	"sync/atomic"
	"time"
)

// A stamp is an ID without its worker: the time and the sequence below it, as
// one number. To take the next one is to add 1, which carries into the time.

// sealed is the state of a span that gives out nothing any more. It is beyond
// every stamp, and stays so.
const sealed = 3 << 62

const cacheLine = 128 // of the larger ones

// A span is the stamps of one claim. Its state only rises, so that whoever has
// moved it from one stamp to the next is the only one to have that one. It has no
// lock, and taking from it neither blocks nor allocates.
type span struct {
	id     *WorkerID
	layout Layout
	lead   int64 // how far ahead of the clock stamps may be, in units
	clock  *workerClock

	_     [cacheLine]byte // what all change shares no line with what all read
	state atomic.Uint64   // the next stamp
	_     [cacheLine]byte
	// ceiling bounds the stamps that may be had without looking at the clock:
	// by what is reserved, and by the lead.
	ceiling atomic.Uint64
	// lookAt is when the clock has to be looked at again, in monotonic time. It
	// is not regarded while a pacer looks.
	lookAt atomic.Int64
	paced  atomic.Bool

	limit   atomic.Uint64 // the first stamp that is not reserved
	renewAt atomic.Uint64 // the stamp, or the clock's, from which on more is to be reserved
	offset  atomic.Int64  // of the wall clock to the monotonic one, at the last look
	seen    atomic.Uint64 // the state then
	broken  atomic.Bool   // time has passed that the monotonic clock does not know of
}

// newSpan returns the span of a claim. Its stamps are later than those that this
// process has had before it.
func newSpan(id *WorkerID, lead time.Duration, after uint64) *span {
	w := id.workers
	s := &span{id: id, layout: w.settings.layout, clock: &w.clock}
	s.lead = s.layout.span(lead)
	from := s.layout.tick(id.reservation().from-1) + 1
	s.state.Store(max(uint64(max(from, 0))<<s.layout.SequenceBits, s.unit(after)))
	s.seen.Store(s.state.Load())
	s.offset.Store(s.clock.wall().UnixNano() - int64(s.clock.elapsed()))
	s.reserved()
	return s
}

// unit rounds a stamp up to the beginning of a unit of time.
func (s *span) unit(stamp uint64) uint64 {
	mask := uint64(1)<<s.layout.SequenceBits - 1
	return (stamp + mask) &^ mask
}

// reserved takes over what the claim has reserved.
func (s *span) reserved() {
	r := s.id.reservation()
	half := s.id.workers.settings.window.Milliseconds() / 2
	bits := s.layout.SequenceBits
	s.limit.Store(uint64(max(s.layout.tick(r.slot.high), 0)) << bits)
	s.renewAt.Store(uint64(max(s.layout.tick(r.slot.high-half), 0)) << bits)
}

// number is the worker's.
func (s *span) number() int { return s.id.number }

// next takes one stamp if the clock need not be looked at for that.
func (s *span) next() (stamp uint64, ok bool) {
	if !s.paced.Load() && int64(s.clock.elapsed()) >= s.lookAt.Load() {
		return 0, false
	}
	ceiling := s.ceiling.Load()
	if s.state.Load() >= ceiling { // so that those who fail do not move it
		return 0, false
	}
	stamp = s.state.Add(1) - 1
	return stamp, stamp < ceiling
}

// take takes up to n stamps in a row, none if there are none.
func (s *span) take(n uint64) (first, got uint64) {
	for {
		first = s.state.Load()
		ceiling := s.ceiling.Load()
		if first >= ceiling {
			return 0, 0
		}
		got = min(n, ceiling-first)
		if s.state.CompareAndSwap(first, first+got) {
			return first, got
		}
	}
}

// A glance is what a look has seen.
type glance struct {
	now    int64  // the clock's, in units
	taken  uint64 // stamps since the last look, about
	renew  bool   // more is to be reserved
	broken bool   // the span must not be used any more
}

const (
	// lookEvery is how long stamps are given out without a look at the clock.
	lookEvery = time.Millisecond
	// sleepGap is how much more time than the monotonic clock knows of tells
	// that the machine was asleep, or is the copy of one.
	sleepGap = time.Second
)

// look brings the span up to the clock: what it gives out next does not lie
// behind that. Any number may look at once.
func (s *span) look() glance {
	elapsed, wall := s.clock.elapsed(), s.clock.wall()
	offset := wall.UnixNano() - int64(elapsed)
	if offset-s.offset.Swap(offset) > int64(sleepGap) {
		s.broken.Store(true)
	}
	last := s.layout.ticks()
	g := glance{now: min(s.layout.tick(wall.UnixMilli()), last), broken: s.broken.Load()}
	bits, limit := s.layout.SequenceBits, s.limit.Load()
	now := uint64(max(g.now, 0)) << bits
	state := s.state.Load()
	g.taken = state - min(state, s.seen.Load())
	for state < now && now < limit && !s.state.CompareAndSwap(state, now) {
		state = s.state.Load()
	}
	s.seen.Store(max(state, now))
	ceiling := min(limit, uint64(max(min(g.now+s.lead+1, last), 0))<<bits)
	if now >= limit || g.broken { // what is left lies in the past
		ceiling = 0
	}
	s.ceiling.Store(ceiling)
	s.lookAt.Store(int64(elapsed + lookEvery - time.Duration(wall.Nanosecond())%lookEvery))
	g.renew = max(state, now) >= s.renewAt.Load()
	return g
}

// seal ends the span, and returns the first stamp that was not taken.
func (s *span) seal() uint64 { return s.state.Swap(sealed) }

func (s *span) isSealed() bool { return s.state.Load() >= sealed }
