package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	joined  time.Time
	try     bool // do not wait

	gone   bool                // somebody deleted the node
	dead   map[string]struct{} // contenders that nobody alive owns
	twins  map[string]int64    // contenders with the own number, and their creation
	watch  *ownWatch           // on the own node, once next in line
	ahead  int                 // contenders ahead, dead ones not counted
	behind string              // the contender waited for
	theirs []byte              // what that one's node holds
}

// take waits for the place's turn and makes it a hold. All of rule 1 has been
// true at one moment of the servers' time when it does: the node was in the
// list, or watched, its owner is the session, which lives at the end still,
// and nobody ahead remained.
func (p *place) take(ctx context.Context, children []string) (*hold, error) {
	if p.owner != p.session.ID() {
		return nil, fmt.Errorf("%w: the node belongs to session %#x, not %#x", errAgain, p.owner, p.session.ID())
	}
	for {
		if err := p.await(ctx, children); err != nil {
			return nil, err
		}
		h, err := p.grant(ctx)
		if h != nil || err != nil {
			return h, err
		}
		// Suspended, under a policy by which that ends a hold at once: see
		// whether the place is still there when there is a connection.
		if children, err = p.list(ctx); err != nil {
			return nil, err
		}
	}
}

// await returns when the place's turn has come.
func (p *place) await(ctx context.Context, children []string) error {
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
	if errors.Is(err, framework.ErrNoNode) {
		p.gone = true
		return nil, fmt.Errorf("%w: %s does not exist", errAgain, p.line.path)
	}
	return children, p.failure(ctx, err)
}

// persist reads again for as long as it only lacks a connection, whatever the
// client's retry policy says: the place is kept as long as the session is.
func (p *place) persist(ctx context.Context, read func() error) error {
	for {
		err := read()
		if p.try || !framework.IsRetryable(err) || ctx.Err() != nil || p.session.Err() != nil {
			return err
		}
	}
}

// stand waits at own's place in the queue, which is as it was listed, and
// returns true when its turn has come. False means that the line has moved
// and must be listed again.
//
// It waits for one contender, with one watch on it. If that is the last one
// in the way, no more can come ahead, so that its deletion is the grant
// without another read. For rule 1, that own node is still there then, a
// second watch stands on own node: within one connection the events come in
// the order of the deletions.
func (p *place) stand(ctx context.Context, queue []contender, own int) (bool, error) {
	for {
		b := p.line.rule.blocker(queue, own)
		if b < 0 {
			return true, nil
		}
		p.ahead = own
		p.behind = framework.JoinPath(p.line.path, queue[b].name)
		data, stat, watch, err := p.look(ctx)
		if errors.Is(err, framework.ErrNoNode) {
			return false, nil
		}
		if err := p.failure(ctx, err); err != nil {
			return false, err
		}
		p.theirs = data
		if stat.EphemeralOwner == 0 {
			stop(watch)
			p.bury(queue[b].name)
			queue, own = without(queue, b), ownAfter(own, b)
			continue
		}
		if p.try {
			return false, ErrHeld
		}
		rest, last := without(queue, b), ownAfter(own, b)
		next := p.line.rule.blocker(rest, last) < 0
		left, err := p.outwait(ctx, watch, next)
		if left || err != nil {
			return left && next && p.inOrder(), err
		}
	}
}

// ownAfter returns own's index after the contender at index i has left.
func ownAfter(own, i int) int {
	if i < own {
		return own - 1
	}
	return own
}

// look reads the node that p stands behind, with a watch if p is to wait.
func (p *place) look(ctx context.Context) (data []byte, stat framework.Stat, watch *framework.Watch, err error) {
	err = p.persist(ctx, func() (err error) {
		if p.try {
			data, stat, err = p.line.client.Get(ctx, p.behind)
		} else {
			data, stat, watch, err = p.line.client.GetW(ctx, p.behind)
		}
		return err
	})
	return data, stat, watch, err
}

// bury remembers a contender whose node is not ephemeral: it belongs to
// nobody alive and would be waited for for ever.
func (p *place) bury(name string) {
	if p.dead == nil {
		p.dead = make(map[string]struct{})
	}
	p.dead[name] = struct{}{}
	p.line.report(name, "skipping a dead contender: its node is not ephemeral")
}

// outwait waits until the watched contender has left, and reports false if
// its node has only changed. If p is next in line it watches its own node
// too.
func (p *place) outwait(ctx context.Context, watch *framework.Watch, next bool) (left bool, err error) {
	defer watch.Stop()
	for {
		if next && p.watch == nil {
			if err := p.watchOwn(ctx); err != nil {
				return false, err
			}
		}
		select {
		case ev := <-watch.Event():
			switch ev.Type {
			case framework.EventDeleted:
				return true, nil
			case framework.EventSessionEnded:
				return false, p.failure(ctx, ev.Err)
			}
			return false, nil
		case ev := <-p.ownEvent():
			p.watch = nil
			if err := p.heard(ctx, ev); err != nil {
				return false, err
			}
		case <-p.session.Context().Done():
			return false, p.failure(ctx, p.session.Err())
		case <-ctx.Done():
			return false, p.failure(ctx, ctx.Err())
		}
	}
}

// watchOwn sets the watch on the own node.
func (p *place) watchOwn(ctx context.Context) error {
	var w *ownWatch
	err := p.persist(ctx, func() (err error) {
		w, err = p.line.watchOwn(ctx, p.path, p.session)
		return err
	})
	if errors.Is(err, errNodeDeleted) {
		p.gone = true
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	if err := p.failure(ctx, err); err != nil {
		return err
	}
	p.watch = w
	return nil
}

// ownEvent is the channel of the own node's watch, nil if there is none.
func (p *place) ownEvent() <-chan framework.Event {
	if p.watch == nil {
		return nil
	}
	return p.watch.Event()
}

// heard judges an event of the own node: fatal to the place, or else the
// watch is to be set anew.
func (p *place) heard(ctx context.Context, ev framework.Event) error {
	switch ev.Type {
	case framework.EventDeleted:
		p.gone = true
		return fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	case framework.EventSessionEnded:
		return p.failure(ctx, ev.Err)
	}
	return nil
}

// inOrder reports whether the deletion that was just heard proves that own
// node was there when it happened: the watch on own node was set before, in
// the connection that still lasts, and has been silent. What is read again
// after a reconnect has no such order.
func (p *place) inOrder() bool {
	if p.watch == nil {
		return false
	}
	select {
	case <-p.watch.Event():
		p.watch = nil
		return false
	default:
	}
	if p.watch.conn.Err() != nil {
		p.unwatch()
		return false
	}
	return true
}

func (p *place) unwatch() {
	if p.watch != nil {
		p.watch.Stop()
		p.watch = nil
	}
}

// grant makes a hold of the place. It returns nil, nil if there is no
// connection and the hold would end with that.
func (p *place) grant(ctx context.Context) (*hold, error) {
	var conn context.Context
	if p.line.settings.endWhenUnknown {
		conn = p.session.ConnectionContext()
	}
	h := newHold(p, conn)
	err := ctx.Err()
	if err == nil {
		err = h.look() // last of all: what was granted in time may be late now
		if err != nil && p.session.Err() == nil {
			p.unwatch()
			return nil, nil
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
	p.watch = nil // the guard's now
	return h, nil
}

// failure sorts err, nil included: the loss of the session means to join
// again, for as long as ctx allows.
func (p *place) failure(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errAgain) || errors.Is(err, ErrClosed) {
		return err
	}
	if ctx.Err() != nil {
		return withContext(ctx, err)
	}
	switch lost := p.session.Err(); {
	case errors.Is(lost, ErrClosed):
		return lost
	case lost != nil:
		return fmt.Errorf("%w: %w", errAgain, lost)
	}
	return err
}

// leaveTime is how long one who gives up waits for his node to be deleted.
const leaveTime = time.Second

// leave gives the place up. Without a connection it does not wait for one:
// the deletion is then the background's.
func (p *place) leave(ctx context.Context) {
	p.unwatch()
	if p.gone || p.session.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	defer context.AfterFunc(p.session.ConnectionContext(), cancel)()
	_ = p.line.delete(ctx, p.path, p.session)
}

// explain adds to err what the place was waiting for.
func (p *place) explain(err error) error {
	if p.behind == "" {
		return err
	}
	waited := time.Since(p.joined).Round(time.Millisecond)
	return fmt.Errorf("waited %v, %d ahead, the next is %s of %s: %w", waited, p.ahead, p.behind, quote(p.theirs), err)
}

// quote makes a node's data fit for a message.
func quote(data []byte) string {
	const most = 64
	if len(data) > most {
		return strconv.Quote(string(data[:most])) + "..."
	}
	return strconv.Quote(string(data))
}

func stop(w *framework.Watch) {
	if w != nil {
		w.Stop()
	}
}
