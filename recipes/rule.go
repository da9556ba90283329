package recipes

// A rule is what one recipe's line differs in from another's.
type rule struct {
	// label comes before the sequence number in the contenders' names.
	label string
	// others are the labels of those who stand in the same line, but for
	// something else.
	others []string
	// blocks reports whether other, which is ahead of own, must leave before
	// own's turn can come. Nil says that everybody ahead must.
	blocks func(own, other contender) bool
	// rejoins reports whether other may leave by putting a node in its own
	// place, which nobody who is in line already must overlook. Nil says that
	// nobody does that.
	rejoins func(other contender) bool
	// passes says that a turn is no hold: whose turn it is goes on to take
	// something elsewhere.
	passes bool
	// closers are the labels of those who close the lock to own when they have
	// held it and failed, see [GraceAfterCrash]. Their numbers say nothing: a
	// marker outlives the line's root and its counter. None says that the lock
	// has no grace.
	closers []string
}

func (r *rule) isBlocked(own, other contender) bool {
	return r.blocks == nil || r.blocks(own, other)
}

// blocker returns the index of the nearest contender ahead of own that must
// leave before own's turn can come, -1 if it has come. queue is in order.
func (r *rule) blocker(queue []contender, own int) int {
	for i := own - 1; i >= 0; i-- {
		if r.isBlocked(queue[own], queue[i]) {
			return i
		}
	}
	return -1
}

// ahead returns how many must leave before own's turn can come.
func (r *rule) ahead(queue []contender, own int) int {
	n := 0
	for _, other := range queue[:own] {
		if r.isBlocked(queue[own], other) {
			n++
		}
	}
	return n
}

// leavesForGood reports whether other, once it has left, is not replaced by
// anybody who is ahead of those who waited for it.
func (r *rule) leavesForGood(other contender) bool {
	return r.rejoins == nil || !r.rejoins(other)
}

// parse reads a child's name, of any who stand in the line.
func (r *rule) parse(child string) (contender, bool) {
	if c, ok := parseContender(r.label, child); ok {
		return c, true
	}
	for _, label := range r.others {
		if c, ok := parseContender(label, child); ok {
			return c, true
		}
	}
	return contender{}, false
}

// partition splits a root's children into those who stand in the line, in no
// order, and the rest.
func (r *rule) partition(children []string) (contenders []contender, foreign []string) {
	for _, child := range children {
		if c, ok := r.parse(child); ok {
			contenders = append(contenders, c)
		} else {
			foreign = append(foreign, child)
		}
	}
	return contenders, foreign
}
