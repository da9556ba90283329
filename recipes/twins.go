package recipes

import (
	"context"
	"math"
)

// tellTwins finds out who was first among the contenders with p's own number.
// There are none until the counter of the line's root has come to its end and
// sticks there, or somebody makes nodes by hand. Each is read once. Those that
// have gone meanwhile, or are dead, are left out of what it returns.
func (p *place) tellTwins(ctx context.Context, queue []contender) ([]contender, error) {
	unknown := p.knownTwins(queue)
	if len(unknown) > 0 {
		err := p.persist(ctx, func() error { return p.readTwins(ctx, unknown) })
		if err != nil {
			return nil, p.failure(ctx, err)
		}
		p.knownTwins(queue)
	}
	told := queue[:0]
	for _, c := range queue {
		if c.seq != p.own.seq || c.czxid != 0 {
			told = append(told, c)
		}
	}
	return told, nil
}

// knownTwins fills in what is known of contenders with p's number, and
// returns those of which nothing is known.
func (p *place) knownTwins(queue []contender) (unknown []contender) {
	for i := range queue {
		c := &queue[i]
		switch {
		case c.seq != p.own.seq:
		case c.name == p.own.name:
			c.czxid = p.own.czxid
		default:
			if c.czxid = p.twins[c.name]; c.czxid == 0 {
				unknown = append(unknown, *c)
			}
		}
	}
	return unknown
}

func (p *place) readTwins(ctx context.Context, twins []contender) error {
	if p.own.seq == math.MaxInt32 {
		p.line.report(p.own.name, "the path's counter is at its end, which makes locking slow and Curator unsafe: delete the path when nobody uses it")
	}
	if p.twins == nil {
		p.twins = make(map[string]int64)
	}
	stats, err := p.line.stats(ctx, twins)
	for name, stat := range stats {
		if stat.EphemeralOwner == 0 {
			p.bury(name)
		} else {
			p.twins[name] = stat.Czxid
		}
	}
	return err
}
