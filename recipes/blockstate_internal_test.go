package recipes

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Processes take numbers and give some of them back, in any order: no number is
// out twice, each process's rise, none is missing, and the state can always be
// written and read again.
func TestBlockStateModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]int64{0, 1000, math.MaxInt64 - 500}).Draw(t, "first")
		s := blockState{Next: first}
		used := make(map[int64]bool)
		type process struct {
			high int64
			out  []interval
		}
		processes := make([]process, 3)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := &processes[rapid.IntRange(0, len(processes)-1).Draw(t, "who")]
			if rapid.Bool().Draw(t, "takes") {
				got, err := s.grant("n", rapid.Int64Range(1, 40).Draw(t, "size"), p.high)
				if errors.Is(err, ErrExhausted) {
					continue
				}
				if err != nil || !got.valid() || got.First < p.high {
					t.Fatalf("granted %+v above %d: %v", got, p.high, err)
				}
				for n := got.First; n < got.end(); n++ {
					if used[n] {
						t.Fatalf("%d is out twice", n)
					}
					used[n] = true
				}
				p.high, p.out = got.end(), append(p.out, got)
			} else {
				var back []interval
				for i, o := range p.out {
					if keep := rapid.Int64Range(0, o.Size).Draw(t, "keep"); keep < o.Size {
						p.out[i].Size = keep
						back = append(back, interval{o.First + keep, o.Size - keep})
					}
				}
				p.out = slices.DeleteFunc(p.out, func(o interval) bool { return o.Size == 0 })
				*p = process{out: p.out} // another begins, with what this one has used
				for _, b := range back {
					for n := b.First; n < b.end(); n++ {
						delete(used, n)
					}
				}
				if err := s.giveBack("n", back); err != nil {
					t.Fatal(err)
				}
				if err := s.giveBack("n", back); err == nil && len(back) > 0 {
					t.Fatalf("%v were given back twice: %+v", back, s)
				}
			}
			free := int64(0)
			for _, f := range s.Free {
				free += f.Size
			}
			if s.Next-first != int64(len(used))+free {
				t.Fatalf("%d are out and %d free of %+v", len(used), free, s)
			}
			text, err := json.Marshal(s)
			var again blockState
			if err == nil {
				err = json.Unmarshal(text, &again)
			}
			if err == nil {
				err = again.check()
			}
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	})
}

// What is kept in the state is bounded: of very many free numbers the fewest are
// forgotten, of changes the oldest.
func TestBlockStateIsBounded(t *testing.T) {
	s := blockState{Next: 10_000}
	for i := range int64(100) {
		if err := s.giveBack(string(rune('A'+i)), []interval{{First: i * 90, Size: 1 + i%70}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Free) != freeKept || len(s.Changes) != changesKept || s.check() != nil {
		t.Fatalf("%d free, %d changes: %v", len(s.Free), len(s.Changes), s.check())
	}
	if slices.ContainsFunc(s.Free, func(f interval) bool { return f.Size < 10 }) {
		t.Errorf("kept %+v", s.Free)
	}
	if _, ok := s.made(string(rune('A' + 99))); !ok {
		t.Error("the last change was forgotten")
	}
	if _, ok := s.made("A"); ok {
		t.Error("the first change was not forgotten")
	}
}
