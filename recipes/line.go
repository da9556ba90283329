package recipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// A line is one recipe's queue at one path: contenders, each an ephemeral
// sequential node, stand in it in the order of their numbers. It has no
// state but what it has already complained about, and since when it knows of
// holders that failed.
type line struct {
	client   *framework.Client
	path     string
	lock     string // the path of the lock that the line is a part of
	key      heldKey
	rule     *rule
	settings settings
	checked  atomic.Bool // that it is no generator's root, nor in one, nor has one in it

	mu     sync.Mutex
	failed map[string]time.Time // markers, and when they were found

	reports reporter
	itself  sync.Once // logs that the line waits for itself
}

func newLine(client *framework.Client, path string, r *rule, s settings) *line {
	return &line{
		client:   client,
		path:     path,
		lock:     path,
		key:      heldKey{client: client.Root(), path: client.FullPath(path), label: r.label},
		rule:     r,
		settings: s,
	}
}

func (l *line) logger() *slog.Logger { return l.client.Logger() }

// errAgain says that a place in the line was lost, that the caller may still
// wait, and that he is to join anew.
var errAgain = errors.New("recipes: place in the line lost")

// enter returns a lease: of the hold that ctx carries, if it carries one of
// this line, or else of a new one.
func (l *line) enter(ctx context.Context, try bool) (*Lease, error) {
	if c, ok := l.carried(ctx); ok {
		lease, err := c.reenter(l)
		if err != nil {
			return nil, withContext(ctx, err)
		}
		if ctx.Err() == nil {
			return lease, nil
		}
		return nil, both(ended(ctx), lease.Release())
	}
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	return l.acquire(ctx, try)
}

// carried returns the context in ctx that carries a hold of this line, if
// there is one.
func (l *line) carried(ctx context.Context) (*leaseContext, bool) {
	c, ok := ctx.Value(l.key).(*leaseContext)
	return c, ok
}

// acquire joins the line, waits until its turn comes, and returns the first
// lease of the hold. If try is set it does not wait but fails with ErrHeld.
func (l *line) acquire(ctx context.Context, try bool) (*Lease, error) {
	return l.acquireFrom(ctx, try, l.join)
}

// acquireFrom is acquire from a place that join makes.
func (l *line) acquireFrom(ctx context.Context, try bool, join joiner) (lease *Lease, err error) {
	err = l.passFrom(ctx, try, join, func(p *place) error {
		h, err := p.grant(ctx)
		if err == nil {
			lease = h.first
		}
		return err
	})
	return lease, err
}

// pass joins the line, waits until its turn comes, and calls turn with the
// place. If try is set it does not wait but fails with ErrHeld. Unless turn
// keeps the place, it leaves no node behind, whatever it returns.
//
// It joins again for as long as ctx allows: after the place was lost, at once
// if that has not just happened; and, unless try is set, after the client has
// found no server that takes it in for as long as its retry policy says.
func (l *line) pass(ctx context.Context, try bool, turn func(p *place) error) error {
	return l.passFrom(ctx, try, l.join, turn)
}

// A joiner makes a place in a line, with a list of the line's root from
// afterwards.
type joiner func(ctx context.Context) (*place, []string, error)

// passFrom is pass from a place that join makes.
func (l *line) passFrom(ctx context.Context, try bool, join joiner, turn func(p *place) error) error {
	var pauses pauses
	asked := time.Now()
	for losses := 0; ; {
		began := time.Now()
		err := l.attempt(ctx, asked, try, join, turn)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil { // maybe only since err was made
			return withContext(ctx, err)
		}
		lost := errors.Is(err, errAgain)
		if !lost && (try || !isOutage(err)) {
			return err
		}
		l.logger().Info("joining the line again", "lock", l.lock, "err", err)
		if time.Since(began) > longestPause {
			losses = 0
			pauses.reset()
		}
		if lost {
			losses++
		}
		if !lost || losses > 1 {
			pauses.pause(ctx)
		}
		if ctx.Err() != nil {
			return withContext(ctx, err)
		}
	}
}

// attempt is one round of pass, for a caller who came at the time asked. The
// error is errAgain if the place was lost.
func (l *line) attempt(ctx context.Context, asked time.Time, try bool, join joiner, turn func(p *place) error) (err error) {
	p, children, err := join(ctx)
	if err != nil {
		return err
	}
	p.asked, p.try = asked, try
	defer func() {
		if !p.kept { // also if a hook or a log handler panics
			err = both(err, p.leave(ctx))
		}
	}()
	if err := p.take(ctx, children, turn); err != nil {
		if says(ctx, err, errAgain) {
			p.tell(WaitLost, bare{err})
		}
		return p.explain(withContext(ctx, err))
	}
	return nil
}

// join makes a node and lists the children of the line's root, in one round
// trip. If it is the line's first, it looks for other recipes above and below;
// if there is no root yet, before it makes one: so that a lock in a wrong place
// does not put a root there.
func (l *line) join(ctx context.Context) (*place, []string, error) {
	parents := framework.WithLabelledParent(l.lock, lockMark)
	if l.checked.Load() {
		return l.stepIn(ctx, parents)
	}
	var above []framework.Ancestor
	p, children, err := l.stepIn(ctx, framework.WithAncestors(&above))
	if says(ctx, err, framework.ErrNoNode) {
		if err := l.checkAbove(ctx); err != nil {
			return nil, nil, withContext(ctx, err)
		}
		p, children, err = l.stepIn(ctx, framework.WithAncestors(&above), parents)
	}
	if err != nil {
		return nil, nil, err
	}
	right := false
	defer func() {
		if !right { // also if a hook panics
			_ = p.leave(ctx)
		}
	}()
	if err := l.checkRoot(ctx, above, children); err != nil {
		return nil, nil, withContext(ctx, err)
	}
	right = true
	return p, children, nil
}

// stepIn is join without the look around.
func (l *line) stepIn(ctx context.Context, opts ...framework.CreateOption) (*place, []string, error) {
	var children []string
	opts = append(opts, framework.WithMode(framework.EphemeralSequential), framework.Protected(), framework.Siblings(&children))
	c, err := l.client.Create(ctx, framework.JoinPath(l.path, l.rule.label), l.settings.data, opts...)
	if err != nil {
		return nil, nil, withContext(ctx, err)
	}
	p := l.newPlace(c)
	_, name := framework.SplitPath(c.Path)
	own, ok := parseContender(l.rule.label, name)
	if !ok {
		_ = p.leave(ctx)
		return nil, nil, fmt.Errorf("the server named a node %q, which is no %s<number>", c.Path, l.rule.label)
	}
	p.own, p.own.czxid = own, c.Stat.Czxid
	return p, children, nil
}

// newPlace returns the place of a node that was just made.
func (l *line) newPlace(c framework.Created) *place {
	return &place{
		line:    l,
		path:    c.Path,
		owner:   c.Stat.EphemeralOwner,
		session: c.Session,
		token:   c.Stat.Czxid,
		joined:  time.Now(),
	}
}

// children lists the children of the line's root, none if there is no root,
// with a watch if that is asked for.
func (l *line) children(ctx context.Context, watching bool) (names []string, w *framework.Watch, err error) {
	if watching {
		names, _, w, err = l.client.ChildrenW(ctx, l.path)
	} else {
		names, _, err = l.client.Children(ctx, l.path)
	}
	if says(ctx, err, framework.ErrNoNode) {
		err = nil
	}
	return names, w, err
}

// stats reads the metadata of contenders, by their names, without those that
// have gone meanwhile.
func (l *line) stats(ctx context.Context, contenders []contender) (map[string]framework.Stat, error) {
	var mu sync.Mutex
	stats := make(map[string]framework.Stat)
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for _, c := range contenders {
		reads.Go(func() error {
			stat, err := l.client.Exists(ctx, framework.JoinPath(l.path, c.name))
			if says(ctx, err, framework.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			stats[c.name] = stat
			return nil
		})
	}
	return stats, reads.Wait()
}

// contenders returns those of children that take part, and logs the others.
func (l *line) contenders(children []string) []contender {
	queue, foreign := l.rule.partition(children)
	for _, child := range foreign {
		l.report(child, "ignoring a child that takes no part in the lock")
	}
	return queue
}

// report logs a message about a child, once.
func (l *line) report(child, message string) {
	if l.reports.isNew(child) {
		l.logger().Warn(message, "lock", l.lock, "child", framework.JoinPath(l.path, child))
	}
}

// waitsForItself warns, once, that a contender waits for a holder of its own
// client. Two goroutines may well exclude each other; one that waits for
// itself waits for ever.
func (l *line) waitsForItself(holder string) {
	l.itself.Do(func() {
		l.logger().Warn("waiting for a lock that this client holds: was the lease's context passed on?", "lock", l.lock, "holder", holder)
	})
}

// delete deletes a node of session, with a retry budget of its own. When ctx
// ends or the connection is lost it returns, and the deletion goes on in the
// background until the session ends. The error is errNodeDeleted if there was
// no node to delete.
func (l *line) delete(ctx context.Context, path string, session *framework.Session) error {
	ctx = retry.Fresh(ctx)
	err := l.client.Delete(ctx, path, framework.AnyVersion, framework.Guaranteed(), framework.InSession(session))
	switch {
	case err == nil:
		return nil
	case says(ctx, err, framework.ErrNoNode):
		return errNodeDeleted
	case errors.Is(err, framework.ErrSessionLost), errors.Is(err, framework.ErrClosed):
		return fmt.Errorf("recipes: releasing %s, which goes with its session: %w", path, err)
	case framework.IsRetryable(err), errors.Is(err, framework.ErrReadOnly), ctx.Err() != nil:
		return fmt.Errorf("recipes: releasing %s, which goes on in the background: %w", path, err)
	}
	l.logger().Warn("a lock's node cannot be deleted", "node", path, "err", err)
	return fmt.Errorf("recipes: releasing %s: %w: %w", path, errStays, err)
}

// without returns queue without the contender at index i.
func without(queue []contender, i int) []contender {
	return slices.Delete(slices.Clone(queue), i, i+1)
}
