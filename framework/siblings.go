package framework

import (
	"context"

	"github.com/batonzk/baton/internal/wire"
)

// surroundings are the reads that go with a create, for [Siblings] and
// [WithAncestors].
type surroundings struct {
	lineage lineage
	list    *call // the last, nil if it is not asked for
	names   wire.GetChildren2Response
}

// reads returns the reads that the creation asks for.
func (cr *creation) reads() *surroundings {
	s := &surroundings{}
	if cr.ancestors != nil {
		s.lineage = newLineage(cr.parent)
	}
	if cr.siblings != nil {
		s.list = newCall(wire.OpGetChildren2, &wire.PathWatchRequest{Path: cr.parent}, &s.names)
	}
	return s
}

// calls returns the reads in the order in which they are to be sent.
func (s *surroundings) calls() []*call {
	if s.list == nil {
		return s.lineage.calls
	}
	return append(s.lineage.calls, s.list)
}

// deliver hands over what was read. err is the outcome of the last read.
func (s *surroundings) deliver(cr *creation, err error) error {
	if !s.lineage.answered() || s.list != nil && err != nil {
		return err
	}
	if err := s.lineage.err(); err != nil {
		return err
	}
	if s.list != nil {
		*cr.siblings = s.names.Children
	}
	if cr.ancestors != nil {
		*cr.ancestors = s.lineage.ancestors()
	}
	return nil
}

// list completes a creation of which only the reads may be missing.
func (cr *creation) list(ctx context.Context, c *conn) error {
	s := cr.reads()
	calls := s.calls()
	if len(calls) == 0 {
		return nil
	}
	return s.deliver(cr, c.roundTrip(ctx, calls...))
}
