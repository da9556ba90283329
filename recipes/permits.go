package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// permits are what the semaphores have in common: a line to stand in, and a
// parent of the nodes of those who hold permits. Whoever is first in line waits
// until there is room, takes what he wants, and leaves the line.
type permits struct {
	lock        // its line is that of the leases
	queue *line // of those who want permits
	limit Limit
}

// The nodes below a semaphore's path, in one of which contenders stand in line,
// while the other has those of the permits that are out.
const (
	queueNode  = "locks"
	leasesNode = "leases"
)

// queueRule lets one contender after the other look for room.
var queueRule = &rule{label: "lock-", passes: true}

// loneQueueRule is queueRule where there is room only when nobody holds, so
// that whoever finds room and markers knows that their holders have failed.
var loneQueueRule = &rule{label: "lock-", passes: true, closers: []string{"lock-"}}

// leaseRule is that of the permits' nodes, none of which waits for another.
var leaseRule = &rule{label: "lease-", blocks: func(_, _ contender) bool { return false }}

func newPermits(what string, client *framework.Client, path string, limit Limit, queue *rule, s settings) permits {
	if err := errors.Join(validate(what, client, path, queue, s), limit.validate(client)); err != nil {
		return permits{lock: unusable(what, path, err)}
	}
	p := permits{
		lock:  lock{what: what, path: path, line: newLine(client, framework.JoinPath(path, leasesNode), leaseRule, s)},
		queue: newLine(client, framework.JoinPath(path, queueNode), queue, s),
		limit: limit,
	}
	p.queue.lock, p.line.lock = path, path
	return p
}

// enterOne takes one permit.
func (s *permits) enterOne(ctx context.Context, try bool) (*Lease, error) {
	leases, err := s.take(ctx, 1, try)
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// take takes n permits, all or none. If try is set it does not wait but fails
// with ErrHeld.
func (s *permits) take(ctx context.Context, n int, try bool) (leases Leases, err error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	err = s.queue.pass(ctx, try, func(p *place) error {
		d := &demand{place: p, permits: s, n: n}
		if err := d.serve(ctx); err != nil {
			return err
		}
		leases = d.granted
		return nil
	})
	return leases, err
}

// Participants returns who holds permits, one for each, and then who stands in
// line for them, in the line's order, none of whom is a Holder. One who gets
// permits meanwhile may appear as both. If nobody is there it returns an empty
// slice; else it is like that of [InterProcessMutex].
func (s *permits) Participants(ctx context.Context) ([]Participant, error) {
	if s.err != nil {
		return nil, s.err
	}
	waiting, err := s.queue.participants(ctx) // first, so that no holder is missed
	if err != nil {
		return nil, fmt.Errorf("recipes: participants of %s: %w", s.path, withContext(ctx, err))
	}
	holders, err := s.lock.Participants(ctx)
	if err != nil {
		return nil, err
	}
	return append(holders, waiting...), nil
}

// Explain is like that of [InterProcessMutex], for the permits that are out and
// the line of those who want some. The names of Foreign begin with that of the
// node below the path in which they are.
func (s *permits) Explain(ctx context.Context) (Explanation, error) {
	if s.err != nil {
		return Explanation{}, s.err
	}
	e, err := s.explain(ctx)
	if err != nil {
		return Explanation{}, fmt.Errorf("recipes: explain %s: %w", s.path, bare{withContext(ctx, err)})
	}
	return e, nil
}

func (s *permits) explain(ctx context.Context) (Explanation, error) {
	e, err := s.queue.explain(ctx) // first, so that no holder is missed
	if err != nil {
		return e, err
	}
	out, err := s.line.explain(ctx)
	if err != nil {
		return e, err
	}
	e.Path = s.line.client.ServerPath(s.path)
	e.Exists = e.Exists || out.Exists
	e.Holders, e.Permits = out.Holders, len(out.Holders)+out.Unread
	if e.Permits > 0 {
		e.Failed = nil // who holds has no place in the line, but a marker
	}
	e.Dead = append(e.Dead, out.Dead...)
	for i, name := range e.Foreign {
		e.Foreign[i] = queueNode + "/" + name
	}
	for _, name := range out.Foreign {
		e.Foreign = append(e.Foreign, leasesNode+"/"+name)
	}
	e.Next, e.Counters = max(e.Next, out.Next), append(e.Counters, out.Counters...)
	e.Limit, err = s.limit.now(ctx)
	return e, err
}
