package embedded

import (
	"cmp"
	"slices"
)

// A real server keeps children, ephemeral nodes and identities in Java's hash
// sets and lists them as those are iterated: by bucket, and in a bucket in the
// order of insertion. That order is arbitrary but fixed, so it is kept here
// too: a client that forgets to sort what it is sent fails the same way.

// A hashSet tells in which order a Java HashSet would list its elements. It
// holds only what that depends on besides the elements.
type hashSet struct{ buckets int }

// added makes room as a HashSet does that now has n elements.
func (h *hashSet) added(n int) {
	for n > h.buckets/4*3 {
		h.buckets *= 2
	}
}

// An element is one of a hashSet: what it is, its hash, and a number that
// grows with each insertion.
type element struct {
	value string
	hash  uint32
	seq   int64
}

// list puts elements into the order in which h lists them.
func (h *hashSet) list(elements []element) {
	mask := uint32(h.buckets - 1)
	slices.SortFunc(elements, func(a, b element) int {
		return cmp.Or(cmp.Compare(a.hash&mask, b.hash&mask), cmp.Compare(a.seq, b.seq))
	})
}

// copied is list for a copy of h, as Java's clone makes it: just large enough
// for what there is.
func (h *hashSet) copied(elements []element) {
	h.list(elements)
	buckets := 1
	for buckets < len(elements)*4/3+1 {
		buckets *= 2
	}
	mask := uint32(buckets - 1)
	slices.SortStableFunc(elements, func(a, b element) int {
		return cmp.Compare(a.hash&mask, b.hash&mask)
	})
}

func values(elements []element) []string {
	names := make([]string, len(elements))
	for i, e := range elements {
		names[i] = e.value
	}
	return names
}

// hashOf returns Java's hash of s, spread as its hash tables do.
func hashOf(s string) uint32 { return spread(stringHash(s)) }

func spread(h uint32) uint32 { return h ^ h>>16 }

// stringHash is String.hashCode, which counts in UTF-16.
func stringHash(s string) uint32 {
	var h uint32
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			h = h*31 + uint32(0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = h*31 + uint32(r)
	}
	return h
}
