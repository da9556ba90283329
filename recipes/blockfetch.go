package recipes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// A fetch is the reservation of a block, under way in the background.
type fetch struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error
}

// refill begins to fetch the next block, unless there is one, or somebody
// does. It does not block.
func (b *BlockIDs) refill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == nil && b.ready == nil {
		b.beginLocked()
	}
}

// beginLocked returns the fetch that is under way, and begins one if there is
// none.
func (b *BlockIDs) beginLocked() *fetch {
	if b.fetch != nil {
		return b.fetch
	}
	f := &fetch{done: make(chan struct{})}
	size, floor := b.unit, b.high
	if b.nonce == "" {
		b.nonce = rand.Text()
	}
	nonce := b.nonce
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	b.fetch = f
	run := func() {
		defer cancel()
		got, err := b.reserve(ctx, nonce, size, floor)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fetchedLocked(f, got, err)
	}
	if !b.root.client.Go(run) {
		cancel()
		b.fetchedLocked(f, interval{}, ErrClosed)
	}
	return f
}

// fetchedLocked ends the fetch under way.
func (b *BlockIDs) fetchedLocked(f *fetch, got interval, err error) {
	if err == nil {
		b.ready, b.high, b.nonce = newBlock(got), got.end(), ""
	} else if current := b.current.Load(); current != nil {
		current.refillLater()
	}
	f.err = err
	b.fetch = nil
	close(f.done)
}

// wait takes up to n numbers, as soon as there are any.
func (b *BlockIDs) wait(ctx context.Context, n int64) (interval, error) {
	if b.err != nil {
		return interval{}, b.err
	}
	var pauses pauses
	for ctx.Err() == nil {
		if got := b.take(n); got.Size > 0 {
			return got, nil
		}
		f, err := b.advance()
		switch {
		case err != nil:
			return interval{}, err
		case f == nil:
			continue
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return interval{}, waited(ctx, b.root.client)
		}
		switch {
		case f.err == nil:
		case comesBack(ctx, f.err):
			pauses.pause(ctx)
		case ctx.Err() == nil:
			return interval{}, b.ended(f.err)
		}
	}
	return interval{}, waited(ctx, b.root.client)
}

// ended returns errGeneratorClosed in place of what Close has done to a fetch.
func (b *BlockIDs) ended(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		return errGeneratorClosed
	}
	return err
}

// take takes up to n numbers of the current block.
func (b *BlockIDs) take(n int64) interval {
	block := b.current.Load()
	if block == nil {
		return interval{}
	}
	got, refill := block.take(n)
	if refill {
		b.refill()
	}
	return got
}

// advance makes the next block the current one when that is used up. It returns
// the fetch to wait for if there is no next one.
func (b *BlockIDs) advance() (*fetch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.current.Load()
	switch {
	case b.closed != nil:
		return nil, errGeneratorClosed
	case current != nil && current.taken.Load() < current.Size:
		return nil, nil // somebody was faster
	case b.ready == nil:
		return b.beginLocked(), nil
	}
	now := time.Now()
	if current != nil {
		b.adapt(current.Size, now.Sub(current.since))
	}
	b.ready.since = now
	b.current.Store(b.ready)
	b.ready = nil
	return nil, nil
}

// adapt sets how many numbers are asked for, after size of them were used in a
// time: toward what is used in a second, by steps of two.
func (b *BlockIDs) adapt(size int64, took time.Duration) {
	rate := float64(size) / max(took, time.Microsecond).Seconds()
	switch {
	case rate > float64(b.unit):
		b.unit = min(2*b.unit, b.settings.most/2)
	case rate < float64(b.unit)/4:
		b.unit = max(b.unit/2, b.settings.least/2)
	}
}

// reserve takes up to size numbers, none below floor, for this process. nonce
// is the reservation's own: whatever becomes of replies, and in however many
// calls, it is made once, or found again; unless very many others were made
// meanwhile, when it is given up for lost and another is made.
func (b *BlockIDs) reserve(ctx context.Context, nonce string, size, floor int64) (interval, error) {
	var got interval
	reservation := alteration{root: b, nonce: nonce, floor: floor, repeats: true}
	err := reservation.make(ctx, func(s *blockState) (err error) {
		got, err = s.grant(nonce, size, floor)
		return err
	})
	if reservation.made != nil {
		got = reservation.made.interval
	}
	return got, err
}

// giveBack gives numbers back, for as long as ctx allows.
func (b *BlockIDs) giveBack(ctx context.Context, left []interval) error {
	var pauses pauses
	nonce := rand.Text()
	back := alteration{root: b, nonce: nonce}
	for {
		err := back.make(ctx, func(s *blockState) error { return s.giveBack(nonce, left) })
		if !comesBack(ctx, err) {
			return err
		}
		pauses.pause(ctx)
	}
}

// wentBack is the error of a counter that others had set higher.
func (b *BlockIDs) wentBack(next, floor int64) error {
	return fmt.Errorf("%w: %s has %d as next number, and all below %d were out already: was it restored, or made again?",
		ErrCorrupt, b.root.client.ServerPath(b.root.path), next, floor)
}

// errUncertain says that nobody can tell any more whether a change was made.
var errUncertain = errors.New("too many others have changed it since to tell whether this one has")

// An alteration changes the state in one step and once, in as many calls as it
// takes.
type alteration struct {
	root    *BlockIDs
	nonce   string
	floor   int64 // below which the next number cannot be
	repeats bool  // it may be made again if nobody can tell any more whether it was

	made    *change // as which it was found to have been made
	unknown bool    // whether it was made, by a write for the version sent
	sent    int32
}

// make changes the state by f, unless that was done already.
func (a *alteration) make(ctx context.Context, f func(s *blockState) error) error {
	b := a.root
	var pauses pauses
	for tries := 0; ; tries++ {
		s, version, err := b.readAbove(ctx, a.floor)
		if err != nil {
			return err
		}
		if made, ok := s.made(a.nonce); ok {
			a.made = &made
			return nil
		}
		if a.unknown && !a.repeats && int64(uint32(version-a.sent)) > int64(len(s.Changes)) {
			return errUncertain
		}
		a.unknown = a.unknown && version == a.sent // else it was not, and cannot be any more
		if err := f(&s); err != nil {
			return err
		}
		_, err = b.root.client.Set(ctx, b.root.path, b.root.encode(s), version)
		if framework.IsUnknown(err) {
			a.unknown, a.sent = true, version
		}
		if !says(ctx, err, framework.ErrBadVersion) {
			return err
		}
		if tries > 0 {
			pauses.pause(ctx) // out of the way of others
		}
	}
}

// readAbove reads the state, which must not be older than floor.
func (b *BlockIDs) readAbove(ctx context.Context, floor int64) (blockState, int32, error) {
	s, version, err := b.read(ctx)
	if err == nil && s.Next < floor {
		if err = b.root.catchUp(ctx); err == nil {
			s, version, err = b.read(ctx)
		}
	}
	if err == nil && s.Next < floor {
		err = b.wentBack(s.Next, floor)
	}
	return s, version, err
}

// read reads the state, and its version.
func (b *BlockIDs) read(ctx context.Context) (s blockState, version int32, err error) {
	read, err := b.root.read(ctx, blockState{Next: b.settings.first})
	if err != nil {
		return s, 0, err
	}
	if err := b.root.decode(read.data, &s); err != nil {
		return s, 0, err
	}
	if err := s.check(); err != nil {
		return s, 0, b.root.corrupt(read.data, err.Error())
	}
	return s, read.version, nil
}
