package recipes

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// stand waits at own's place in the queue, which is as it was listed, and
// returns true when its turn has come. False means that the line has moved
// and must be listed again.
//
// It waits for one contender, with one watch on it. If that is the last one
// in the way and leaves for good, no more can come ahead, so that its deletion
// is the grant without another read. For rule 1, that own node is still there
// then, a second watch stands on own node: within one connection the events
// come in the order of the deletions.
func (p *place) stand(ctx context.Context, queue []contender, own int) (bool, error) {
	for {
		b := p.line.rule.blocker(queue, own)
		if b < 0 {
			return true, nil
		}
		p.ahead = p.line.rule.ahead(queue, own)
		p.behind = Participant{Path: framework.JoinPath(p.line.path, queue[b].name)}
		data, stat, watch, err := p.look(ctx)
		if says(ctx, err, framework.ErrNoNode) {
			return false, nil
		}
		if err := p.failure(ctx, err); err != nil {
			return false, err
		}
		if stat.EphemeralOwner == 0 {
			stop(watch)
			p.bury(queue[b].name)
			queue, own = without(queue, b), ownAfter(own, b)
			continue
		}
		rest, last := without(queue, b), ownAfter(own, b)
		next := p.line.rule.blocker(rest, last) < 0
		p.behind = p.line.newParticipant(queue[b], data, stat)
		p.behind.Holder = !p.line.rule.passes && p.line.rule.blocker(queue, b) < 0
		p.ours = p.behind.Holder && stat.EphemeralOwner == p.owner
		if p.try {
			return false, ErrHeld
		}
		left, err := p.standBehind(ctx, watch, next)
		if left || err != nil {
			return left && next && p.line.rule.leavesForGood(queue[b]) && p.inOrder(), err
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
			data, stat, err = p.line.client.Get(ctx, p.behind.Path)
		} else {
			data, stat, watch, err = p.line.client.GetW(ctx, p.behind.Path)
		}
		if says(ctx, err, framework.ErrNoAuth) {
			stat, watch, err = p.lookFromAfar(ctx)
		}
		return err
	})
	return data, stat, watch, err
}

// lookFromAfar is look at a node that p may not read. Since ZooKeeper 3.8.4
// whoever may not read a node is not told of its deletion, though he may ask
// whether it is there. So the watch is on the line, and tells of every change
// in it.
func (p *place) lookFromAfar(ctx context.Context) (stat framework.Stat, watch *framework.Watch, err error) {
	_, name := framework.SplitPath(p.behind.Path)
	p.line.report(name, "a contender may not be read: who waits behind it looks at every change of the line")
	if !p.try {
		if _, _, watch, err = p.line.client.ChildrenW(ctx, p.line.path); err != nil {
			return stat, nil, err
		}
	}
	if stat, err = p.line.client.Exists(ctx, p.behind.Path); err != nil {
		stop(watch)
		return stat, nil, err
	}
	return stat, watch, nil
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

// standBehind waits until the watched contender has left, as outwait does.
func (p *place) standBehind(ctx context.Context, watch *framework.Watch, next bool) (left bool, err error) {
	defer watch.Stop() // also if the listener or a log handler panics
	if p.ours {
		p.line.waitsForItself(p.behind.Path)
	}
	p.tell(WaitJoined, nil)
	return p.outwait(ctx, watch, next)
}

// outwait waits until the watched node has been deleted, and reports false if
// it has only changed. If p is next in line it watches its own node too.
func (p *place) outwait(ctx context.Context, watch *framework.Watch, next bool) (left bool, err error) {
	defer watch.Stop()
	ev, err := p.hear(ctx, next, watch.Event(), nil)
	return ev.Type == framework.EventDeleted, err
}

// hear waits for an event from one of two watches, either of which may be nil.
// With own it watches its own node too, and fails once that is gone.
func (p *place) hear(ctx context.Context, own bool, one, other <-chan framework.Event) (ev framework.Event, err error) {
	for {
		if own && p.watch == nil {
			if err := p.watchOwn(ctx); err != nil {
				return ev, err
			}
		}
		select {
		case ev = <-one:
		case ev = <-other:
		case ev := <-p.ownEvent():
			p.watch = nil
			if err := p.heard(ctx, ev); err != nil {
				return ev, err
			}
			continue
		case <-p.session.Context().Done():
			return ev, p.failure(ctx, p.session.Err())
		case <-ctx.Done():
			return ev, p.failure(ctx, ctx.Err())
		}
		if ev.Type == framework.EventSessionEnded {
			return ev, p.failure(ctx, ev.Err)
		}
		return ev, nil
	}
}

// watchOwn sets the watch on the own node.
func (p *place) watchOwn(ctx context.Context) error {
	var w *ownWatch
	err := p.persist(ctx, func() (err error) {
		w, err = p.line.watchOwn(ctx, p.path, p.session)
		return err
	})
	if says(ctx, err, errNodeDeleted) {
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

// eventOf is the channel of w, nil if there is none.
func eventOf(w *framework.Watch) <-chan framework.Event {
	if w == nil {
		return nil
	}
	return w.Event()
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

func stop(w *framework.Watch) {
	if w != nil {
		w.Stop()
	}
}
