//go:build linux

package interop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Turn is one stay inside a lock, as the one inside saw it: it had been
// granted when it began, and was not released before it ended. Times are
// those of [Monotonic].
type Turn struct {
	User string // who; what one user does at once is no conflict
	// Permits is how many a semaphore gave, 1 for a reader, and 0 for a holder
	// that has nobody beside it.
	Permits int
	Path    string // of the node it was granted by, the first if there are more
	Token   int64
	Seq     int32 // of the node's name

	Asked, Began, Ended time.Duration
}

func (t Turn) String() string {
	return fmt.Sprintf("%s (permits %d, token %#x, %s, from %v to %v)", t.User, t.Permits, t.Token, t.Path, t.Began, t.Ended)
}

// exclusive reports whether the turn admits no other beside it.
func (t Turn) exclusive() bool { return t.Permits == 0 }

// conflicts reports whether t and u may not overlap, whatever the limit.
func (t Turn) conflicts(u Turn) bool {
	return t.User != u.User && (t.exclusive() || u.exclusive())
}

// Check returns all that a lock must not do and did in these turns, nil if
// nothing:
//
//   - an exclusive turn overlaps another;
//   - more permits are out than limit, if that is not 0;
//   - of two turns that conflict, the later has the smaller number or token, so
//     that somebody was overtaken or can write past a fence;
//   - a turn that was asked for when another had begun has no larger token.
//
// The order of turns is only judged where the times prove it: those that may
// be inside together can be reported late, and in any order.
func Check(turns []Turn, limit int) error {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(a.Began, b.Began) })
	return errors.Join(checkConflicts(turns), checkLimit(turns, limit), checkTokens(turns))
}

// checkConflicts compares each turn with all that began before it. There are
// hundreds, so that this is quick enough, and shows each pair.
func checkConflicts(turns []Turn) error {
	var together, order []error
	for i, later := range turns {
		for _, t := range turns[:i] {
			if !later.conflicts(t) {
				continue
			}
			if later.Began < t.Ended {
				together = append(together, fmt.Errorf("together for %v:\n%v and\n%v", min(t.Ended, later.Ended)-later.Began, t, later))
			}
			if later.Seq-t.Seq <= 0 {
				order = append(order, fmt.Errorf("out of the line's order:\n%v before\n%v", t, later))
			}
			if later.Token <= t.Token {
				order = append(order, fmt.Errorf("the token does not rise:\n%v before\n%v", t, later))
			}
		}
	}
	return errors.Join(some(together), some(order))
}

// checkLimit follows how many permits are out.
func checkLimit(turns []Turn, limit int) error {
	if limit == 0 {
		return nil
	}
	type change struct {
		at      time.Duration
		permits int
		turn    Turn
	}
	var changes []change
	for _, t := range turns {
		changes = append(changes, change{t.Began, t.Permits, t}, change{t.Ended, -t.Permits, t})
	}
	// At one and the same time permits come back first.
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.permits, b.permits))
	})
	var errs []error
	out := 0
	for _, c := range changes {
		if out += c.permits; c.permits > 0 && out > limit {
			errs = append(errs, fmt.Errorf("%d permits of %d are out with\n%v", out, limit, c.turn))
		}
	}
	return some(errs)
}

// checkTokens compares each turn with those that had begun when it was asked
// for. A holder who goes on in its own place, as by a downgrade, keeps the
// token.
func checkTokens(turns []Turn) error {
	byAsked := slices.Clone(turns)
	slices.SortFunc(byAsked, func(a, b Turn) int { return cmp.Compare(a.Asked, b.Asked) })
	var errs []error
	var highest Turn
	begun := 0
	for _, t := range byAsked {
		for ; begun < len(turns) && turns[begun].Began <= t.Asked; begun++ {
			if turns[begun].Token > highest.Token {
				highest = turns[begun]
			}
		}
		kept := t.User == highest.User && t.Seq == highest.Seq
		if t.Token < highest.Token || t.Token == highest.Token && !kept {
			errs = append(errs, fmt.Errorf("asked for after another had begun, with no larger token:\n%v after\n%v", t, highest))
		}
	}
	return some(errs)
}

// some joins errors, the first few of them.
func some(errs []error) error {
	const few = 5
	if n := len(errs) - few; n > 0 {
		errs = append(errs[:few:few], fmt.Errorf("and %d more", n))
	}
	return errors.Join(errs...)
}
