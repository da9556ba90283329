package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// GraceAfterCrash keeps a lock closed for d after a holder has failed: its
// session was lost, its node was deleted by somebody else or by force, or its
// client was closed. That gives what the holder has sent off time to arrive, or
// to be given up, where the resource cannot check tokens. It is Chubby's
// lock-delay. After a release there is no wait.
//
// Each holder leaves a marker, a persistent node of the name that it had in line,
// below <path>.held, beside the lock's path, and takes it away when it releases. A
// contender whose turn has come and who finds a marker waits, with its place
// kept, until it is gone or has been known to this lock value for d, by this
// process's own clock. Whoever wants the lock to open earlier can delete the
// marker. TryAcquire fails with [ErrHeld] meanwhile, and says for how long; it
// does not wait, so that the time counts only between calls on one lock value.
//
// Of a read-write lock a writer that failed closes both sides, a reader that
// failed only that of the writers. A writer that became a reader counts as a
// writer until it releases the write lease.
//
// A grant then costs one more round trip, and so does a release. All
// contenders of a lock need the option, with the same d; Curator has nothing
// like it. All locks have it but [InterProcessSemaphore], which refuses to be
// used with it: where several may hold, a marker does not tell that its holder
// has failed.
func GraceAfterCrash(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.err = fmt.Errorf("%w: a grace of %v", framework.ErrInvalidOption, d)
		}
		s.grace = d
	}
}

// takeOverMax is how many markers are deleted at once.
const takeOverMax = 100

// markers is the path of the node that has the markers of those who hold, or
// have held and failed. It lies outside of the lock's path, whose children
// Curator takes for contenders.
func (l *line) markers() string { return l.lock + ".held" }

// openAt returns when the grace of the given markers is over, which is counted
// from when each of them was first found. What is known of other ones is
// forgotten.
func (l *line) openAt(markers []string) time.Time {
	now := time.Now()
	found := make(map[string]time.Time, len(markers))
	var last time.Time
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range markers {
		at, known := l.failed[name]
		if !known {
			at = now
		}
		found[name] = at
		if at.After(last) {
			last = at
		}
	}
	l.failed = found
	return last.Add(l.settings.grace)
}

// unmark deletes a marker, if there is one. Where it cannot at once the
// background goes on, also when the session is over: the name is never used
// again. The error says that the marker stays.
func (l *line) unmark(ctx context.Context, marker string) error {
	if marker == "" {
		return nil
	}
	err := l.client.Delete(retry.Fresh(ctx), marker, framework.AnyVersion, framework.Guaranteed())
	switch {
	case err == nil, says(ctx, err, framework.ErrNoNode):
		return nil
	case framework.IsRetryable(err), errors.Is(err, framework.ErrReadOnly), errors.Is(err, ErrClosed), ctx.Err() != nil:
		return nil // what becomes of the lock's node says it
	}
	l.logger().Warn("a holder's marker cannot be deleted", "marker", marker, "err", err)
	return fmt.Errorf("recipes: releasing %s, whose marker stays, so that the next one waits for the grace: %w", l.lock, err)
}

// claim makes the marker of a place whose turn has come, and returns when no
// failed holder's is left. Whoever fails in between leaves one more, and the
// next one waits anew.
func (p *place) claim(ctx context.Context) error {
	if p.line.settings.grace == 0 || p.claimed {
		return nil
	}
	p.ahead, p.behind = 0, Participant{}
	failed, err := p.mark(ctx)
	for err == nil && len(failed) > 0 {
		if err = p.outwaitGrace(ctx, failed); err == nil {
			failed, err = p.takeOver(ctx, failed)
		}
	}
	p.claimed = err == nil
	return err
}

// mark makes the place's marker, and returns those of failed holders. A create
// whose reply was lost, or that arrives when the session is over, can at worst
// leave a marker too many.
func (p *place) mark(ctx context.Context) (failed []string, err error) {
	p.marker = framework.JoinPath(p.line.markers(), p.own.name)
	var names []string
	err = p.persist(ctx, func() error {
		_, err := p.line.client.Create(ctx, p.marker, p.line.settings.data,
			framework.WithParents(), framework.InSession(p.session), framework.Siblings(&names))
		if says(ctx, err, framework.ErrNodeExists) { // by a try whose reply was lost: the name is unique
			names, _, err = p.line.client.Children(ctx, p.line.markers())
		}
		return err
	})
	return p.failed(names), p.failure(ctx, err)
}

// failed returns those of the markers that close the lock to the place. Since
// its turn has come, their holders have lost theirs; but not that of whom it
// inherits the place from.
func (p *place) failed(markers []string) (failed []string) {
	if p.heir {
		return nil
	}
	for _, name := range markers {
		c, ok := p.line.rule.parse(name)
		if ok && name != p.own.name && slices.Contains(p.line.rule.closers, c.label) {
			failed = append(failed, name)
		}
	}
	return failed
}

// outwaitGrace waits until the grace is over or the markers are gone. It
// makes sure that the own node is there after the markers were listed, as seen
// by the same session: else one of them might be that of a holder who lives.
func (p *place) outwaitGrace(ctx context.Context, failed []string) error {
	if !p.inOrder() {
		if err := p.watchOwn(ctx); err != nil {
			return err
		}
	}
	open := p.line.openAt(failed)
	left := time.Until(open)
	if left <= 0 {
		return nil
	}
	marker := framework.JoinPath(p.line.markers(), failed[0])
	if p.try {
		return fmt.Errorf("%w: it stays closed for %v after a crash, see %s", ErrHeld, left, marker)
	}
	p.line.logger().Info("waiting out the grace after a crash", "lock", p.line.lock, "marker", marker, "for", left)
	p.tell(WaitJoined, nil)
	waiting, cancel := context.WithDeadline(ctx, open)
	defer cancel()
	for _, name := range failed {
		err := p.outwaitMarker(waiting, framework.JoinPath(p.line.markers(), name))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the lock stays closed for another %v after a crash, see %s", ended(ctx), time.Until(open), marker)
		case waiting.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// outwaitMarker waits until the marker is gone.
func (p *place) outwaitMarker(ctx context.Context, marker string) error {
	for {
		var stat framework.Stat
		var watch *framework.Watch
		err := p.persist(ctx, func() (err error) {
			stat, watch, err = p.line.client.ExistsW(ctx, marker)
			return err
		})
		if err != nil {
			return p.failure(ctx, err)
		}
		if stat.IsZero() {
			watch.Stop()
			return nil
		}
		gone, err := p.outwait(ctx, watch, true)
		if gone || err != nil {
			return err
		}
	}
}

// takeOver deletes the markers of failed holders on the condition that the
// own node is there, and returns those that are left.
func (p *place) takeOver(ctx context.Context, failed []string) ([]string, error) {
	n := min(len(failed), takeOverMax)
	ops := []framework.Op{framework.CheckOp(p.path, framework.AnyVersion).Or(errNodeDeleted)}
	for _, name := range failed[:n] {
		ops = append(ops, framework.DeleteOp(framework.JoinPath(p.line.markers(), name), framework.AnyVersion))
	}
	err := p.persist(ctx, func() error {
		_, err := p.line.client.Multi(ctx, ops...)
		return err
	})
	switch {
	case err == nil:
		return failed[n:], nil
	case says(ctx, err, errNodeDeleted):
		p.gone = true
		return nil, fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	case says(ctx, err, framework.ErrNoAuth), says(ctx, err, framework.ErrNotEmpty):
		p.line.logger().Warn("a failed holder's marker cannot be deleted: everybody waits for the grace", "lock", p.line.lock, "err", err)
		return nil, nil
	case says(ctx, err, framework.ErrNoNode), framework.IsUnknown(err):
		return p.relist(ctx)
	}
	return nil, p.failure(ctx, err)
}

// relist returns the markers of failed holders that are left.
func (p *place) relist(ctx context.Context) (failed []string, err error) {
	var names []string
	err = p.persist(ctx, func() (err error) {
		names, _, err = p.line.client.Children(ctx, p.line.markers())
		return err
	})
	if says(ctx, err, framework.ErrNoNode) {
		return nil, fmt.Errorf("%w: %s does not exist", errAgain, p.line.markers())
	}
	return p.failed(names), p.failure(ctx, err)
}
