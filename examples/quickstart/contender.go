package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A contender takes its turns in a session of its own.
type contender struct {
	*game
	name    string
	crashes bool          // in its first turn
	first   bool          // gets the lock before the others come
	started chan struct{} // closed when its first turn has begun

	client *framework.Client
	wire   *wire
}

// crasher is the contender that crashes, in its first turn: then somebody
// always comes after it.
func (g *game) crasher() int { return min(1, g.turns-1) }

func (c *contender) play(ctx context.Context) error {
	c.wire = newWire(c.servers)
	client, err := c.connect(ctx, c.wire)
	if err != nil {
		return err
	}
	c.client = client
	defer client.Close()
	mutex := recipes.NewInterProcessMutex(client, c.path, recipes.WithData([]byte(c.name)))
	for n := 1; n <= c.turns; n++ {
		asked := time.Now()
		lease, err := mutex.Acquire(ctx)
		if err != nil {
			return err
		}
		t := c.record.granted(c.name, n, lease.Token(), asked)
		if n == 1 {
			close(c.started)
		}
		if c.first && n == 1 {
			err = c.gather(lease.Context(ctx), c.contenders)
		}
		if err == nil && c.crashes {
			return c.crash(ctx, t, lease)
		}
		if err == nil {
			err = c.turn(ctx, t, lease)
		}
		if err := errors.Join(err, lease.Release()); err != nil {
			return err
		}
	}
	return nil
}

// gather waits until n stand in line, the holder included.
func (c *contender) gather(ctx context.Context, n int) error {
	for {
		line, _, watch, err := c.judge.ChildrenW(ctx, c.path)
		if err != nil {
			return err
		}
		if len(line) >= n {
			watch.Stop()
			return nil
		}
		select {
		case <-watch.Event():
		case <-ctx.Done():
			watch.Stop()
			return context.Cause(ctx)
		}
	}
}

// turn works for as long as the lease lasts.
func (c *contender) turn(ctx context.Context, t *turn, lease *recipes.Lease) error {
	defer c.record.finished(t)
	if err := c.announce(ctx, t, lease); err != nil {
		return err
	}
	return pause(lease.Context(ctx), c.work)
}

// pause stands for work.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// announce tells who holds and who is next.
func (c *contender) announce(ctx context.Context, t *turn, lease *recipes.Lease) error {
	next, err := c.next(ctx, lease)
	if err != nil {
		return err
	}
	c.record.announce(t, next, fmt.Sprintf("%s holds the lock    turn %d of %d   token %-#8x waited %-7v next: %s",
		t.name, t.n, c.turns, t.token, t.waited.Round(time.Millisecond), list(next)))
	return nil
}

// crash ends the contender as a crash would: it does not release, and does
// not say goodbye to the server. It waits until somebody stands behind it, who
// always comes: see crasher.
func (c *contender) crash(ctx context.Context, t *turn, lease *recipes.Lease) error {
	if err := c.gather(lease.Context(ctx), 2); err != nil {
		return err
	}
	if err := c.announce(ctx, t, lease); err != nil {
		return err
	}
	if err := pause(lease.Context(ctx), c.work/2); err != nil {
		return err
	}
	session := lease.Session()
	c.wire.Cut()
	c.record.finished(t)
	c.record.crashed(t)
	c.record.say(fmt.Sprintf("%s crashes while it holds the lock: nobody releases it, its session %#x has to end first", c.name, session.ID()))
	if c.servers.own != nil {
		c.record.say(fmt.Sprintf("the test server is told to end the session now; a real one waits for its timeout, here %v", session.Timeout()))
		return c.servers.expire(session.ID())
	}
	// What is left of the contender could still work: its lease ends before
	// the server gives the lock to another.
	c.record.say(fmt.Sprintf("%s's session outlives its connection, for up to its timeout of %v", c.name, session.Timeout()))
	select {
	case <-lease.Done():
		c.record.lost(t, lease.Err())
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
