package recipes // the order is decided by what is not exported

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A walker is who stands in a line of readers and writers, in the naive model.
type walker struct {
	contender
	write bool
	of    int // index of the writer that this reader was, -1 if it was none
}

// drawLine draws a line in its order: each came after the one before it, and
// a reader that was a writer stands right behind it, or in its place if it has
// left.
func drawLine(t *rapid.T) []walker {
	first := rapid.SampledFrom([]int32{0, 7, -3, math.MaxInt32 - 3, math.MinInt32}).Draw(t, "first")
	sticks := rapid.Bool().Draw(t, "sticks") && first > 0 // the counter, at its end
	n := rapid.IntRange(1, 12).Draw(t, "n")
	var line []walker
	add := func(label string, seq int32, of int) {
		w := walker{write: label == writeLabel, of: of}
		w.contender = contender{
			name:  fmt.Sprintf("_c_%d-%s%010d", rapid.IntRange(0, 1000).Draw(t, "id")*100+len(line), label, seq),
			label: label, seq: seq, czxid: int64(len(line) + 1),
		}
		line = append(line, w)
	}
	for i := range n {
		seq := first + int32(i)
		if sticks && seq < first {
			seq = math.MaxInt32
		}
		if !rapid.Bool().Draw(t, "writes") {
			add(readLabel, seq, -1)
			continue
		}
		add(writeLabel, seq, -1)
		// Only the first in line holds, and so only it can become a reader.
		if len(line) == 1 && seq != math.MaxInt32 && rapid.Bool().Draw(t, "reads, too") {
			add(readLabel, seq, 0)
		}
	}
	if len(line) > 1 && line[1].of == 0 && rapid.Bool().Draw(t, "writes no more") {
		line = line[1:]
		line[0].of = -1
	}
	return line
}

// Whoever looks sees himself blocked by those that the model says: a writer by
// all ahead, a reader by writers ahead, but for the one that it was.
func TestReadWriteOrderAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := drawLine(t)
		for i, own := range line {
			var queue []contender
			for _, j := range rapid.Permutation(indexes(line)).Draw(t, "listed") {
				c := line[j].contender
				if c.seq != own.seq { // only those with the own number are asked
					c.czxid = 0
				}
				queue = append(queue, c)
			}
			nearest, blockers := "", 0
			for j, other := range line[:i] {
				if own.write || other.write && own.of != j {
					nearest = other.name
					blockers++
				}
			}
			r := readRule
			if own.write {
				r = writeRule
			}
			at := lineUp(queue, own.contender)
			if at < 0 {
				t.Fatalf("%s is not in its own line", own.name)
			}
			got := ""
			if b := r.blocker(queue, at); b >= 0 {
				got = queue[b].name
			}
			// The two nodes of one who has both have one place: either is the nearest.
			if sameSeq := got != "" && nearest != "" && own.write && seqOf(got) == seqOf(nearest) && seqOf(got) != math.MaxInt32; got != nearest && !sameSeq {
				t.Fatalf("of %v, %s waits for %q, want %q", queue, own.name, got, nearest)
			}
			if ahead := r.ahead(queue, at); ahead != blockers {
				t.Fatalf("of %v, %s has %d ahead, want %d", queue, own.name, ahead, blockers)
			}
		}
	})
}

func indexes(line []walker) []int {
	out := make([]int, len(line))
	for i := range out {
		out[i] = i
	}
	return out
}

func seqOf(name string) int32 {
	c, _ := writeRule.parse(name)
	return c.seq
}

// No two exclude each other and both have nobody to wait for, and somebody
// has.
func TestReadWriteHoldersAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := drawLine(t)
		var readers, writers int
		both := len(line) > 1 && line[1].of == 0
		for i, own := range line {
			queue := make([]contender, 0, len(line))
			for _, w := range line {
				queue = append(queue, w.contender)
			}
			if writeRule.blocker(queue, i) != readRule.blocker(queue, i) {
				t.Fatalf("the sides do not agree on %s of %v", own.name, queue)
			}
			if writeRule.blocker(queue, i) >= 0 {
				continue
			}
			if own.write {
				writers++
			} else {
				readers++
			}
		}
		if writers > 1 || writers == 1 && readers > 0 && !(both && readers == 1) || writers+readers == 0 {
			t.Fatalf("%d writers and %d readers hold: %v", writers, readers, line)
		}
	})
}
