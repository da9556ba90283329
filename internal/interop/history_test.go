//go:build linux

package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/interop"
)

// stay is a turn of a user in short: from and to in ms, asked for at from, and
// a token that goes with the number.
func stay(user string, permits, seq int, from, to int) interop.Turn {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	return interop.Turn{
		User: user, Permits: permits, Path: fmt.Sprintf("/l/x-%010d", seq), Seq: int32(seq), Token: int64(100 + seq),
		Asked: at(from), Began: at(from), Ended: at(to),
	}
}

// with changes a turn.
func with(t interop.Turn, change func(*interop.Turn)) interop.Turn {
	change(&t)
	return t
}

func TestCheckFinds(t *testing.T) {
	const alone, reads = 0, 1
	for _, c := range []struct {
		name  string
		limit int
		turns []interop.Turn
		want  string // "" for nothing
	}{
		{"nothing in nothing", 0, nil, ""},
		{"nothing in turns end to end", 0, []interop.Turn{
			stay("a", alone, 1, 0, 5), stay("b", alone, 2, 5, 7), stay("a", alone, 3, 7, 9),
		}, ""},
		{"two holders", 0, []interop.Turn{
			stay("a", alone, 1, 0, 5), stay("b", alone, 2, 4, 7),
		}, "together for 1ms"},
		{"a holder within another's turn, told first", 0, []interop.Turn{
			stay("b", alone, 2, 2, 4), stay("a", alone, 1, 0, 9),
		}, "together for 2ms"},
		{"a holder behind a short turn and within a long one", 0, []interop.Turn{
			stay("a", alone, 1, 0, 9), stay("a", alone, 2, 1, 2), stay("b", alone, 3, 3, 4),
		}, "together for 1ms"},
		{"readers together", 0, []interop.Turn{
			stay("a", reads, 1, 0, 5), stay("b", reads, 2, 1, 4), stay("c", alone, 3, 5, 6),
		}, ""},
		{"a reader beside a writer", 0, []interop.Turn{
			stay("a", alone, 1, 0, 5), stay("b", reads, 2, 4, 7),
		}, "together"},
		{"a writer beside the reader that ends last", 0, []interop.Turn{
			stay("a", reads, 1, 0, 9), stay("b", reads, 2, 1, 4), stay("c", alone, 3, 5, 6),
		}, "together"},
		{"a writer's own reading", 0, []interop.Turn{
			stay("a", alone, 1, 0, 5), stay("a", reads, 1, 4, 7), stay("b", alone, 2, 7, 8),
		}, ""},
		{"as many permits as there are", 3, []interop.Turn{
			stay("a", 2, 1, 0, 5), stay("b", 1, 3, 1, 4), stay("c", 1, 4, 4, 6), stay("d", 2, 5, 5, 8),
		}, ""},
		{"one permit too many", 3, []interop.Turn{
			stay("a", 2, 1, 0, 5), stay("b", 1, 3, 1, 4), stay("c", 1, 4, 3, 6),
		}, "4 permits of 3 are out"},
		{"readers without a limit", 0, []interop.Turn{
			stay("a", reads, 1, 0, 5), stay("b", reads, 2, 1, 5), stay("c", reads, 3, 2, 5),
		}, ""},
		{"one who was overtaken", 0, []interop.Turn{
			with(stay("a", alone, 2, 0, 5), func(t *interop.Turn) { t.Token = 1 }), stay("b", alone, 1, 5, 7),
		}, "out of the line's order"},
		{"a reader who was overtaken by a writer", 0, []interop.Turn{
			with(stay("a", alone, 2, 0, 5), func(t *interop.Turn) { t.Token = 1 }), stay("b", reads, 1, 5, 7),
		}, "out of the line's order"},
		{"readers in any order", 0, []interop.Turn{
			stay("a", reads, 2, 0, 5),
			with(stay("b", reads, 1, 1, 7), func(t *interop.Turn) { t.Asked = -1 }),
		}, ""},
		{"a token that stays", 0, []interop.Turn{
			stay("a", alone, 1, 0, 5),
			with(stay("b", alone, 2, 5, 7), func(t *interop.Turn) { t.Token, t.Asked = 101, -1 }),
		}, "the token does not rise"},
		{"a permit with an older token", 2, []interop.Turn{
			stay("a", 1, 2, 0, 5),
			with(stay("b", 1, 3, 1, 4), func(t *interop.Turn) { t.Token = 101 }),
		}, "asked for after another had begun"},
		{"a permit with an older token, asked for before", 2, []interop.Turn{
			stay("a", 1, 2, 0, 5),
			with(stay("b", 1, 3, 1, 4), func(t *interop.Turn) { t.Token, t.Asked = 101, -1 }),
		}, ""},
		{"two permits of one token", 2, []interop.Turn{
			stay("a", 1, 2, 0, 5), stay("b", 1, 2, 1, 4),
		}, "asked for after another had begun"},
		{"an older token long after", 2, []interop.Turn{
			stay("a", 1, 9, 0, 1), stay("b", 1, 10, 1, 2), stay("c", 1, 5, 8, 9),
		}, "asked for after another had begun"},
		{"numbers that wrap around", 0, []interop.Turn{
			with(stay("a", alone, 1<<31-1, 0, 5), func(t *interop.Turn) { t.Token = 7 }),
			with(stay("b", alone, 0, 5, 6), func(t *interop.Turn) { t.Seq, t.Token = -1<<31, 8 }),
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := interop.Check(c.turns, c.limit)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("found %v, want nothing", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckNamesBoth: who reads of a violation must be able to find it.
func TestCheckNamesBoth(t *testing.T) {
	var turns []interop.Turn
	for i := range 10 {
		turns = append(turns, stay(fmt.Sprint("user", i), 0, i, i, 20))
	}
	text := fmt.Sprint(interop.Check(turns, 0))
	for _, want := range []string{"user0", "user1", "/l/x-0000000001", "and 40 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("not in it: %q:\n%s", want, text)
		}
	}
}
