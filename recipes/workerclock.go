package recipes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
)

// A workerClock is the wall clock that timestamps are of, beside what is known
// of the servers'. The servers' clock is asked before any time is reserved: a
// reservation that a broken clock has moved far ahead could never be taken back.
type workerClock struct {
	wall    func() time.Time
	maxSkew time.Duration
	began   time.Time // what monotonic time counts from

	mu     sync.Mutex
	server time.Time     // what a server's clock said
	heard  time.Duration // and when
}

func (c *workerClock) elapsed() time.Duration { return time.Since(c.began) }

// heardServer notes what a server's clock said, in the reply to what was asked at
// asked and answered just now. It fails if the wall clock is off by too much.
func (c *workerClock) heardServer(server, asked time.Time) error {
	c.mu.Lock()
	c.server, c.heard = server, c.elapsed()
	c.mu.Unlock()
	return c.compare(server, asked, c.wall())
}

func (c *workerClock) compare(server, asked, answered time.Time) error {
	if server.Before(asked.Add(-c.maxSkew)) || server.After(answered.Add(c.maxSkew)) {
		return fmt.Errorf("%w by more than %v: this process's says %s, the servers' %s",
			ErrClockSkew, c.maxSkew, clockText(answered), clockText(server))
	}
	return nil
}

// agrees compares the wall clock with what the servers' should say by now.
func (c *workerClock) agrees() bool {
	c.mu.Lock()
	server := c.server.Add(c.elapsed() - c.heard)
	c.mu.Unlock()
	now := c.wall()
	return c.compare(server, now, now) == nil
}

func clockText(t time.Time) string { return t.UTC().Format(slotTime) }

// consult asks the servers for their time, by a write to the node that keeps the
// latest time they have ever said. It fails if the wall clock is off that by too
// much, or if the servers' clock has gone back: after that, as after a restore
// of old data together with an old clock, times come again that were given out.
func (w *WorkerIDs) consult(ctx context.Context) error {
	path := framework.JoinPath(w.root.path, floorNode)
	for range 3 { // somebody else may be making it, or delete it
		asked := w.clock.wall()
		data, stat, err := w.client.Get(ctx, path)
		if says(ctx, err, framework.ErrNoNode) {
			made, err := w.client.Create(ctx, path, nil, framework.WithParents())
			if err == nil {
				return w.clock.heardServer(made.Stat.Created, asked)
			}
			if says(ctx, err, framework.ErrNodeExists) {
				continue
			}
			return err
		}
		if err != nil {
			return err
		}
		floor := stat.Modified
		if len(data) > 0 {
			was, err := time.Parse(slotTime, string(data))
			if err != nil {
				return fmt.Errorf("%w: %s holds %s, which is no time", ErrCorrupt, path, quote(data))
			}
			floor = later(floor, was)
		}
		asked = w.clock.wall()
		// Two who write at once may lower it by the moment between them.
		stat, err = w.client.Set(ctx, path, []byte(clockText(floor)), framework.AnyVersion)
		if says(ctx, err, framework.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if stat.Modified.Before(floor.Add(-w.settings.maxSkew)) {
			return fmt.Errorf("%w: the servers' has gone back, from %s to %s; if the first was wrong, delete %s",
				ErrClockSkew, clockText(floor), clockText(stat.Modified), path)
		}
		return w.clock.heardServer(stat.Modified, asked)
	}
	return fmt.Errorf("%w: others keep deleting %s", errAgain, path)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
