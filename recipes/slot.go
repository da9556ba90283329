package recipes

import (
	"encoding/json"
	"fmt"
	"time"
)

// A slot is what the node of a worker's number holds. Whoever has written it,
// by a compare-and-set on the version that he had read, has reserved the time
// up to high: that is all on which the uniqueness of IDs rests. So high never
// goes down, and whoever comes next begins there.
type slot struct {
	high       int64  // the first millisecond since 1970 that is not reserved
	owner      string // for people
	generation int64  // of claims: 1 for the first
	write      string // unique, by which a writer whose reply was lost finds his own
}

// slotText is a slot as its node holds it.
type slotText struct {
	High       string `json:"high"`
	Owner      string `json:"owner"`
	Generation int64  `json:"generation"`
	Write      string `json:"write"`
}

const slotTime = "2006-01-02T15:04:05.000Z"

func (s slot) encode() []byte {
	data, err := json.Marshal(slotText{
		High: time.UnixMilli(s.high).UTC().Format(slotTime), Owner: s.owner, Generation: s.generation, Write: s.write,
	})
	if err != nil {
		panic(err) // strings and a number
	}
	return data
}

// decodeSlot reads what encode wrote, and refuses all else: what is not
// understood in full must not be written over.
func decodeSlot(data []byte) (slot, error) {
	var text slotText
	if err := decodeStrictly(data, &text); err != nil {
		return slot{}, fmt.Errorf("it holds %s, which is no worker's slot: %w", quote(data), err)
	}
	high, err := time.Parse(slotTime, text.High)
	if err != nil {
		return slot{}, fmt.Errorf("it holds %s, which is no worker's slot: high: %w", quote(data), err)
	}
	if text.Generation < 1 || text.Write == "" {
		return slot{}, fmt.Errorf("it holds %s, which is no worker's slot: generation and write are missing", quote(data))
	}
	return slot{high: high.UnixMilli(), owner: text.Owner, generation: text.Generation, write: text.Write}, nil
}

// noSlot is the version of a slot that is not there.
const noSlot int32 = -2

// A slotView is a slot as it was read. Without one it is noSlotView.
type slotView struct {
	slot
	version int32
}

var noSlotView = slotView{version: noSlot}

// A reservation is a write to a slot that, once it has been committed, gives
// its writer all time from from up to slot.high, for good.
type reservation struct {
	slot slot
	over int32 // the version that it must replace
	from int64
}

// version is the slot's once the reservation has been committed.
func (r reservation) version() int32 {
	if r.over == noSlot {
		return 0
	}
	return r.over + 1
}

// claim returns the reservation by which a new owner takes the slot. All
// durations and times are in milliseconds.
func (v slotView) claim(now, window int64, owner, write string) reservation {
	from := max(v.high, now)
	return reservation{
		slot: slot{high: from + window, owner: owner, generation: v.generation + 1, write: write},
		over: v.version,
		from: from,
	}
}

// extend returns the reservation by which the owner whose committed one is r
// reserves more: a window from now, or from the time that he has come to by
// being ahead of his clock. What r has left is his too.
func (r reservation) extend(now, used, window int64, write string) reservation {
	next := r.slot
	next.high = max(next.high, max(now, used)+window)
	next.write = write
	return reservation{slot: next, over: r.version(), from: r.from}
}

// An outcome is what became of a reservation.
type outcome int

const (
	outcomeOpen outcome = iota // not committed: it may be tried again
	outcomeDone                // committed
	outcomeLost                // somebody else was there: nothing more can be reserved
)

// outcome tells by what the slot holds afterwards what became of r, whose
// reply was lost. Nothing is concluded but from the very thing that r writes.
func (r reservation) outcome(v slotView) outcome {
	switch {
	case v.slot == r.slot && v.version != noSlot:
		return outcomeDone
	case v.version == r.over:
		return outcomeOpen
	}
	return outcomeLost
}
