package recipes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A contender is a child of a line's root that takes part in the line.
type contender struct {
	name  string
	label string // what it is in line for
	seq   int32
	czxid int64 // of its node's creation, 0 if it was not asked for
}

// parseContender reads a child's name of the form <label><number>, with or
// without a protection prefix _c_<id>- before it. The id is not looked at:
// Curator writes a UUID with dashes, the Go driver one without. The number
// must be written as a server writes a sequence number; a name with another
// is foreign, however it sorts.
func parseContender(label, child string) (contender, bool) {
	i := strings.LastIndex(child, label)
	if i < 0 {
		return contender{}, false
	}
	if prefix := child[:i]; prefix != "" && !isProtection(prefix) {
		return contender{}, false
	}
	seq, ok := parseSequence(child[i+len(label):])
	return contender{name: child, label: label, seq: seq}, ok
}

// labels are those of all recipes' nodes: of what can be asked for by [Revoke].
var labels = []string{mutexRule.label, readRule.label, writeRule.label, leaseRule.label}

// isContender reports whether a recipe of this package can have made a node
// of that name.
func isContender(name string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, ok := parseContender(label, name)
		return ok
	})
}

func isProtection(prefix string) bool {
	return len(prefix) > len("_c_-") && strings.HasPrefix(prefix, "_c_") && strings.HasSuffix(prefix, "-")
}

// parseSequence reads a parent's counter, a signed 32-bit number that the
// server formats with %010d: 0000000007, 2147483647, -2147483648, -000000007.
// Nothing else will do.
func parseSequence(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || s[0] == '+' {
		return 0, false
	}
	written := len(s) == 10
	if s[0] == '-' {
		written = n < 0 && (len(s) == 10 || len(s) == 11 && s[1] != '0')
	}
	return int32(n), written
}

// compareFrom orders contenders as seen from the sequence number pivot. The
// counter may wrap around, so that numbers have an order only relative to one
// another, by the sign of their 32-bit difference. It is a total order of
// whatever lies within half the counter's range of the pivot.
//
// Since ZooKeeper 3.6 the counter does not wrap but sticks at its end: all
// that come later have the number 2147483647. Between equal numbers the
// creation decides.
func compareFrom(pivot int32) func(a, b contender) int {
	return func(a, b contender) int {
		if d := cmp.Compare(a.seq-pivot, b.seq-pivot); d != 0 {
			return d
		}
		return cmp.Or(cmp.Compare(a.czxid, b.czxid), strings.Compare(a.name, b.name))
	}
}

// lineUp sorts contenders as own sees them and returns own's index, -1 if it
// is not among them.
func lineUp(contenders []contender, own contender) int {
	slices.SortFunc(contenders, compareFrom(own.seq))
	return slices.IndexFunc(contenders, func(c contender) bool { return c.name == own.name })
}
