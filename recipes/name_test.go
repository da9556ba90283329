package recipes // the order is decided by what is not exported

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestParseContender(t *testing.T) {
	t.Parallel()
	const uuid = "4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5"
	for name, want := range map[string]int32{
		"_c_" + uuid + "-lock-0000000003":                     3,
		"_c_" + uuid + "-lock-2147483647":                     math.MaxInt32,
		"_c_" + uuid + "-lock--2147483648":                    math.MinInt32,
		"_c_" + uuid + "-lock--000000001":                     -1,
		"_c_4d1cbd505fd84d219a565a07f4e4b0e5-lock-0000000003": 3,
		"_c_x-lock-0000000000":                                0,
		"_c_lock-0000000001-lock-0000000002":                  2,
		"lock-0000000000":                                     0,
		"lock-1234567890":                                     1234567890,
	} {
		got, ok := parseContender("lock-", name)
		if !ok || got.seq != want || got.name != name {
			t.Errorf("parseContender(%q) = %v, %v, want number %d", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", "0", "0000000000", "workid", "-lock-", "lock-", "lock-0", "lock-00000000000", "lock-2147483648",
		"lock-+000000001", "lock--2147483649", "lock- 000000001", "lock-000000000x", "lock--000000000", "lock--0000000000", "lock--00000001", "lock-0000000001-", "block-0000000001",
		"my-lock-0000000001", "_c_-lock-0000000001", "_c_xlock-0000000001", uuid + "__lock__0000000001",
		"_c_" + uuid + "-lease-0000000001", "_c_" + uuid + "-lock-٠٠٠٠٠٠٠٠٠١", "LOCK-0000000001",
	} {
		if c, ok := parseContender("lock-", name); ok {
			t.Errorf("parseContender(%q) = %v, want a foreign name", name, c)
		}
	}
}

func TestParseSequenceReadsWhatServersWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32().Draw(t, "n")
		if got, ok := parseSequence(fmt.Sprintf("%010d", n)); !ok || got != n {
			t.Fatalf("parseSequence of %d = %d, %v", n, got, ok)
		}
	})
}

func TestParseSequenceReadsNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[-+ 0]?[0-3]{1,2}[0-9]{6,10}`).Draw(t, "s")
		n, err := strconv.ParseInt(s, 10, 32)
		want := err == nil && fmt.Sprintf("%010d", n) == s
		if _, ok := parseSequence(s); ok != want {
			t.Fatalf("parseSequence(%q) reads it: %v, want %v", s, ok, want)
		}
	})
}

func BenchmarkLineUp(b *testing.B) {
	var children []string
	for i := range 1000 {
		children = append(children, fmt.Sprintf("_c_4d1cbd50-5fd8-4d21-9a56-5a07f4e4b0e5-lock-%010d", (i*7919)%1000))
	}
	b.ReportAllocs()
	for b.Loop() {
		queue, _ := mutexRule.partition(children)
		lineUp(queue, queue[0])
	}
}

func TestOrderWrapsAround(t *testing.T) {
	t.Parallel()
	names := []string{"lock-2147483646", "lock-2147483647", "lock--2147483648", "lock--2147483647"}
	for i := range names {
		queue, _ := mutexRule.partition(names)
		own, _ := parseContender("lock-", names[i])
		if got := lineUp(queue, own); got != i {
			t.Errorf("%s stands at %d, want %d", names[i], got, i)
		}
		for j, c := range queue {
			if c.name != names[j] {
				t.Errorf("as %s sees it, %s stands at %d, want %s", own.name, c.name, j, names[j])
			}
		}
	}
}

// However a stretch of consecutive numbers lies around the wrap, and in
// whatever order they are listed, all contenders see the same line.
func TestOrderIsTheSameForAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int32().Draw(t, "first")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		var line []contender
		for i := range n {
			seq := first + int32(i)
			line = append(line, contender{name: fmt.Sprintf("lock-%010d", seq), seq: seq})
		}
		for i, own := range line {
			shuffled := rapid.Permutation(line).Draw(t, "listed")
			if got := lineUp(shuffled, own); got != i || !slices.Equal(shuffled, line) {
				t.Fatalf("%s stands at %d of %v, want %d of %v", own.name, got, shuffled, i, line)
			}
		}
	})
}

func TestOrderOfEqualNumbers(t *testing.T) {
	t.Parallel()
	queue, _ := mutexRule.partition([]string{"lock-0000000007", "_c_x-lock-0000000007"})
	own := queue[0]
	if got := lineUp(queue, own); got != 1 {
		t.Errorf("%s stands at %d, want 1: names decide", own.name, got)
	}
}

func TestLineUpWithoutOwn(t *testing.T) {
	t.Parallel()
	queue, foreign := mutexRule.partition([]string{"lock-0000000007", "workid"})
	if got := lineUp(queue, contender{name: "lock-0000000008", seq: 8}); got != -1 {
		t.Errorf("an absent contender stands at %d, want -1", got)
	}
	if !slices.Equal(foreign, []string{"workid"}) {
		t.Errorf("foreign children are %q, want workid", foreign)
	}
}
