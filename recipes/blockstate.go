package recipes

import (
	"fmt"
	"math"
	"slices"
)

// An interval is adjacent numbers.
type interval struct {
	First int64 `json:"first"`
	Size  int64 `json:"size"`
}

func (s interval) end() int64 { return s.First + s.Size }

// valid reports whether s is not empty and lies within what there can be.
func (s interval) valid() bool { return s.First >= 0 && s.Size > 0 && s.Size <= math.MaxInt64-s.First }

// A change is one of the last that were made to the state, and what it has
// granted. By its nonce, whose reply was lost finds out that it was made.
type change struct {
	Nonce string `json:"nonce"`
	interval
}

// blockState is what the root of BlockIDs holds.
type blockState struct {
	Next    int64      `json:"next"`              // all from here on were never granted
	Free    []interval `json:"free,omitempty"`    // given back, in order, none adjacent to another
	Changes []change   `json:"changes,omitempty"` // the last ones
}

const (
	changesKept = 16
	freeKept    = 64
)

// check returns what is wrong with a state that was read.
func (s *blockState) check() error {
	if s.Next < 0 {
		return fmt.Errorf("next is negative")
	}
	last := int64(-1)
	for _, f := range s.Free {
		if !f.valid() || f.First <= last || f.end() > s.Next {
			return fmt.Errorf("the free numbers from %d on make no sense", f.First)
		}
		last = f.end()
	}
	for _, c := range s.Changes {
		if c.Size != 0 && !c.valid() {
			return fmt.Errorf("the change %q makes no sense", c.Nonce)
		}
	}
	return nil
}

// made returns the change with the nonce, if it is among the last.
func (s *blockState) made(nonce string) (change, bool) {
	i := slices.IndexFunc(s.Changes, func(c change) bool { return c.Nonce == nonce })
	if i < 0 {
		return change{}, false
	}
	return s.Changes[i], true
}

// grant takes up to size numbers out, none below floor: of those that were given
// back, or else the next.
func (s *blockState) grant(nonce string, size, floor int64) (interval, error) {
	i := slices.IndexFunc(s.Free, func(f interval) bool { return f.First >= floor })
	var got interval
	if i >= 0 {
		free := &s.Free[i]
		got = interval{free.First, min(size, free.Size)}
		*free = interval{free.First + got.Size, free.Size - got.Size}
		if free.Size == 0 {
			s.Free = slices.Delete(s.Free, i, i+1)
		}
	} else {
		got = interval{s.Next, min(size, math.MaxInt64-s.Next)}
		s.Next += got.Size
	}
	if got.Size == 0 {
		return interval{}, ErrExhausted
	}
	s.note(change{nonce, got})
	return got, nil
}

// giveBack puts numbers back that were granted and not used. Of very many intervals
// it forgets the smallest.
func (s *blockState) giveBack(nonce string, intervals []interval) error {
	all := append(slices.Clone(s.Free), intervals...)
	slices.SortFunc(all, func(a, b interval) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	var merged []interval
	for _, f := range all {
		n := len(merged)
		switch {
		case f.end() > s.Next || n > 0 && merged[n-1].end() > f.First:
			return fmt.Errorf("the numbers from %d on are not out", f.First)
		case n > 0 && merged[n-1].end() == f.First:
			merged[n-1].Size += f.Size
		default:
			merged = append(merged, f)
		}
	}
	if n := len(merged); n > 0 && merged[n-1].end() == s.Next {
		s.Next = merged[n-1].First
		merged = merged[:n-1]
	}
	for len(merged) > freeKept {
		least := 0
		for i, f := range merged {
			if f.Size < merged[least].Size {
				least = i
			}
		}
		merged = slices.Delete(merged, least, least+1)
	}
	s.Free = merged
	s.note(change{Nonce: nonce})
	return nil
}

// note remembers a change.
func (s *blockState) note(c change) {
	s.Changes = append(s.Changes, c)
	s.Changes = s.Changes[max(0, len(s.Changes)-changesKept):]
}
