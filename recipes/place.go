package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// A place is one contender's node in a line, from its creation until it is
// granted or left. It belongs to one goroutine.
type place struct {
	line    *line
	path    string
	own     contender // with its czxid
	owner   int64     // the ephemeral owner, as the server said
	session *framework.Session
	token   int64     // see [Lease.Token]
	asked   time.Time // when the caller came
	joined  time.Time
	try     bool         // do not wait
	kept    bool         // the node is a hold's now
	from    *inheritance // where the place is from, until that is settled
	heir    bool         // it is a holder's, who has outwaited all who failed before
	marker  string       // the path of what claim has made, "" if nothing
	claimed bool

	gone   bool                // somebody deleted the node
	dead   map[string]struct{} // contenders that nobody alive owns
	twins  map[string]int64    // contenders with the own number, and their creation
	watch  *ownWatch           // on the own node, once next in line
	ahead  int                 // contenders ahead, dead ones not counted
	behind Participant         // the contender waited for
	ours   bool                // that one holds the lock, and is of the same session
	told   Wait                // what the listener was told last
}

// take waits for the place's turn and calls turn. All of rule 1 has been true
// at one moment of the servers' time when it does: the node was in the list, or
// watched, its owner is the session, which lives at the end still, and nobody
// ahead remained.
func (p *place) take(ctx context.Context, children []string, turn func(p *place) error) error {
	if p.owner != p.session.ID() {
		return fmt.Errorf("%w: the node belongs to session %#x, not %#x", errAgain, p.owner, p.session.ID())
	}
	for {
		if err := p.await(ctx, children); err != nil {
			return err
		}
		err := turn(p)
		if !says(ctx, err, errSuspended) {
			return err
		}
		// See whether the place is still there when there is a connection.
		if children, err = p.list(ctx); err != nil {
			return err
		}
	}
}

// await returns when the place's turn has come.
func (p *place) await(ctx context.Context, children []string) error {
	if p.from != nil {
		return p.inherit(children)
	}
	for {
		queue, err := p.tellTwins(ctx, p.living(p.line.contenders(children)))
		if err != nil {
			return err
		}
		own := lineUp(queue, p.own)
		if own < 0 {
			p.gone = true
			return fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
		}
		turn, err := p.stand(ctx, queue, own)
		if turn || err != nil {
			return err
		}
		if children, err = p.list(ctx); err != nil {
			return err
		}
	}
}

// living returns queue without the contenders known to be dead.
func (p *place) living(queue []contender) []contender {
	alive := queue[:0]
	for _, c := range queue {
		if _, dead := p.dead[c.name]; !dead {
			alive = append(alive, c)
		}
	}
	return alive
}

// list lists the children of the line's root. A root that is not there has
// taken the place with it.
func (p *place) list(ctx context.Context) (children []string, err error) {
	err = p.persist(ctx, func() (err error) {
		children, _, err = p.line.client.Children(ctx, p.line.path)
		return err
	})
	if says(ctx, err, framework.ErrNoNode) {
		p.gone = true
		return nil, fmt.Errorf("%w: %s does not exist", errAgain, p.line.path)
	}
	return children, p.failure(ctx, err)
}

// persist reads again for as long as it only lacks a connection, whatever the
// client's retry policy says: the place is kept as long as the session is.
func (p *place) persist(ctx context.Context, read func() error) error {
	var pauses pauses
	for {
		err := read()
		if p.try || !framework.IsRetryable(err) || ctx.Err() != nil || p.session.Err() != nil {
			return err
		}
		pauses.pause(ctx)
	}
}

// grant makes a hold of the place, after the grace if there is one. It fails
// with errSuspended if there is no connection and the hold would end with that.
func (p *place) grant(ctx context.Context) (*hold, error) {
	if err := p.claim(ctx); err != nil {
		return nil, err
	}
	p.tell(WaitGranted, nil)
	h := newHold(p.line, p.node())
	h.marker = p.marker
	err := ctx.Err()
	if err == nil {
		err = h.look() // last of all: what was granted in time may be late now
		if err != nil && p.session.Err() == nil {
			p.unwatch()
			return nil, errSuspended
		}
	}
	own := p.watch
	if err == nil && !p.line.client.Go(func() { h.guard(own) }) {
		err = ErrClosed
	}
	if err != nil {
		_ = h.end(err)
		return nil, p.failure(ctx, err)
	}
	p.watch, p.kept = nil, true // the guard's now
	return h, nil
}

func (p *place) node() node {
	return node{path: p.path, token: p.token, session: p.session}
}
