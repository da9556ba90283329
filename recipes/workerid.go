package recipes

import (
	"sync"
	"time"
)

// A WorkerID is a worker number that was claimed: a [Lease] of it. Its end says
// that others may get the number; what was reserved for it stays its own, so
// that a [Snowflake] goes on to the end of that.
//
// Whoever uses the number for something else than a Snowflake works with a
// context of it, as with that of a lock: after the claim's loss, another has the
// number.
//
// All methods are safe for concurrent use.
type WorkerID struct {
	*Lease
	workers *WorkerIDs
	number  int
	pending *reservation // what became of it is not known; its owner is who extends

	mu       sync.Mutex
	reserved reservation // the last that is known to be committed
}

// ID returns the number.
func (id *WorkerID) ID() int { return id.number }

// Owner returns what the slot tells people about its owner, see [WithOwner].
func (id *WorkerID) Owner() string { return id.reservation().slot.owner }

// Generation returns how many claims the number has had, this one included.
func (id *WorkerID) Generation() int64 { return id.reservation().slot.generation }

// Reserved returns the time that is reserved for this claim, until not
// included. No other claim of the number, ever, has any of it.
func (id *WorkerID) Reserved() (from, until time.Time) {
	r := id.reservation()
	return time.UnixMilli(r.from).UTC(), time.UnixMilli(r.slot.high).UTC()
}

// SlotPath returns the path of the node that keeps the reservation.
func (id *WorkerID) SlotPath() string { return id.workers.slotPath(id.number) }

func (id *WorkerID) reservation() reservation {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.reserved
}

// inherit takes over what is left of an own earlier reservation of the same
// number, if nobody has had the number in between: each claim moves high. Not so if
// a copy of this process may use it, too.
func (id *WorkerID) inherit(old *span) {
	last := old.id.reservation()
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.number == old.number() && id.reserved.from == last.slot.high && !old.broken.Load() {
		id.reserved.from = last.from
	}
}
