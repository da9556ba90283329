package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// closeTime is how long Close tries to give numbers back.
const closeTime = 5 * time.Second

// A closing is a Close, for all who call it.
type closing struct {
	done chan struct{}
	err  error
}

// Close ends the generator, and gives back the numbers that are reserved and
// not used, for anybody to have later. It blocks until a server has them, for no
// longer than five seconds. The error says that they are lost: no number comes
// twice, but some never come. It may be called again, and returns the same.
// Calls of Next that wait fail with [ErrClosed].
//
// Call it before the client's Close.
func (b *BlockIDs) Close() error {
	if b.err != nil {
		return nil
	}
	b.mu.Lock()
	c := b.closed
	if c != nil {
		b.mu.Unlock()
		<-c.done
		return c.err
	}
	c = &closing{done: make(chan struct{})}
	b.closed = c
	f := b.fetch
	b.mu.Unlock()
	defer close(c.done)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := b.end(ctx, f); err != nil {
		c.err = fmt.Errorf("recipes: closing %s: %w", b.root.path, bare{err})
	}
	return c.err
}

// end gives back what is left when the fetch that is under way is over.
func (b *BlockIDs) end(ctx context.Context, f *fetch) error {
	var fetched error
	if f != nil {
		stop := context.AfterFunc(ctx, f.cancel)
		<-f.done
		stop()
		fetched = f.err
	}
	var left []interval
	b.mu.Lock()
	for _, block := range []*block{b.current.Load(), b.ready} {
		if block == nil {
			continue
		}
		if rest := block.rest(); rest.Size > 0 {
			left = append(left, rest)
		}
	}
	b.ready = nil
	b.mu.Unlock()
	if len(left) > 0 {
		if err := b.giveBack(ctx, left); err != nil {
			return lost(left, withContext(ctx, err))
		}
	}
	if framework.IsUnknown(fetched) {
		return fmt.Errorf("a block may be lost that was to be reserved: %w", fetched)
	}
	return nil
}

// lost says which numbers are lost, and why.
func lost(left []interval, err error) error {
	n := int64(0)
	for _, s := range left {
		n += s.Size
	}
	return fmt.Errorf("%d numbers from %d on are lost: %w", n, left[0].First, err)
}
