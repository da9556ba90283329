package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonzk/baton/framework"
)

// BlockIDs hand out numbers from 0 on, among all processes that use the same
// path of the same ensemble, from blocks that each process reserves for itself:
// nearly always without a request. No number is given twice, and those of one
// BlockIDs value rise; among processes there is no order. The numbers are dense:
// what is reserved and not used is given back by [BlockIDs.Close], and is handed
// out later. A process that ends without Close loses what it had reserved, which
// is never more than one block of the largest size, see [WithBlockSize].
//
// The next half of a block is reserved in the background while the first half is
// used, and only by those who ask for numbers. How much is reserved follows
// the demand: about what is used in a second. So a time without servers is
// noticed only when it lasts longer than what is left.
//
// The path's data has the next number, those given back, and the last changes,
// by which a reservation whose reply was lost is found again. Who deletes the
// path deletes all that was known of the numbers.
//
// It is safe for concurrent use, and should be shared in a process.
type BlockIDs struct {
	root     generatorRoot
	settings blockSettings
	err      error // why it cannot be used

	current atomic.Pointer[block] // nil before the first

	mu     sync.Mutex
	ready  *block // to come after current
	fetch  *fetch // under way
	unit   int64  // how many are asked for
	high   int64  // the end of all that was granted here
	nonce  string // of a reservation whose outcome is not known
	closed *closing
}

// A block is numbers that are reserved for this process.
type block struct {
	interval
	refill atomic.Int64 // with how many taken the next is to be fetched
	since  time.Time    // when it became the current one

	_     [cacheLine]byte // what all processors write has a cache line of its own
	taken atomic.Int64    // may exceed Size
	_     [cacheLine]byte
}

// newBlock returns a block of what was granted.
func newBlock(s interval) *block {
	b := &block{interval: s}
	b.refill.Store(s.Size / 2)
	return b
}

// take takes up to n numbers, and reports whether it is time to fetch more.
func (b *block) take(n int64) (got interval, refill bool) {
	i := b.taken.Add(n) - n
	if i >= b.Size {
		return interval{}, false
	}
	n = min(n, b.Size-i)
	at := b.refill.Load()
	return interval{b.First + i, n}, i <= at && at < i+n
}

// refillLater has the next block fetched when half of what is left is taken.
func (b *block) refillLater() {
	if i := b.taken.Load(); i < b.Size {
		b.refill.Store(i + (b.Size-i)/2)
	}
}

// rest takes all that is left.
func (b *block) rest() interval {
	i := min(b.taken.Swap(math.MaxInt64/2), b.Size)
	return interval{b.First + i, b.Size - i}
}

// A BlockOption changes one setting of [BlockIDs].
type BlockOption func(*blockSettings)

type blockSettings struct {
	least, most int64
	first       int64
	err         error
}

// WithBlockSize sets how many numbers a process keeps reserved, used ones
// included: at least for a block, and at most, which is what it loses when it
// ends without [BlockIDs.Close]. The default is 100 to 1,000,000. They must be 2
// or more. Processes may differ in it.
func WithBlockSize(least, most int64) BlockOption {
	return func(s *blockSettings) {
		s.least, s.most = least, most
		if least < 2 || most < least {
			s.err = fmt.Errorf("%w: blocks of %d to %d numbers, want 2 or more, the smaller number first", framework.ErrInvalidOption, least, most)
		}
	}
}

// WithFirst sets the number that the path begins with when it is made, instead
// of 0. It changes nothing if the path is there.
func WithFirst(n int64) BlockOption {
	return func(s *blockSettings) {
		s.first = n
		if n < 0 {
			s.err = fmt.Errorf("%w: the first number is %d, want 0 or more", framework.ErrInvalidOption, n)
		}
	}
}

// NewBlockIDs returns the generator at path, which is made when it is used
// first; it must be no lock's path, nor lie in one. It does no I/O. A malformed
// path or option is the error of every call that would do I/O.
func NewBlockIDs(client *framework.Client, path string, opts ...BlockOption) *BlockIDs {
	s := blockSettings{least: 100, most: 1_000_000}
	nilOption := apply(&s, opts)
	b := &BlockIDs{
		root:     generatorRoot{client: client, path: path, t: blockRoot, owns: func(string) bool { return false }},
		settings: s,
		unit:     s.least / 2,
	}
	if err := errors.Join(s.err, nilOption, validateRoot(client, path)); err != nil {
		b.err = fmt.Errorf("recipes: block IDs %q: %w", path, err)
	}
	return b
}

// Path returns the path as it was given.
func (b *BlockIDs) Path() string { return b.root.path }

// Next returns the next number. It blocks only if none is reserved, until
// servers have reserved some: a time without servers does not end the call, only
// ctx does, and an answer that makes no sense to ask again, such as
// [framework.ErrNoAuth]. [ErrWrongRoot] and [ErrCorrupt] say what is wrong with
// the path; [framework.ErrNoNode] says that somebody has deleted it,
// [ErrExhausted] that all numbers are out, [ErrClosed] that the generator or
// the client was closed. After that of the client, numbers that are reserved
// are still handed out.
func (b *BlockIDs) Next(ctx context.Context) (int64, error) {
	if block := b.current.Load(); block != nil && ctx.Err() == nil {
		if got, refill := block.take(1); got.Size == 1 {
			if refill {
				b.refill()
			}
			return got.First, nil
		}
	}
	got, err := b.wait(ctx, 1)
	if err != nil {
		return 0, b.failed(1, err)
	}
	return got.First, nil
}

// NextN returns n numbers, that rise but need not be adjacent; none, without a
// look at anything, if n is 0. It blocks and fails as Next does; with an error
// come the numbers that it had got by then, so that none is lost.
func (b *BlockIDs) NextN(ctx context.Context, n int) ([]int64, error) {
	if b.err == nil && n < 0 {
		return nil, b.failed(n, fmt.Errorf("%w: %d numbers, want 0 or more", framework.ErrInvalidOption, n))
	}
	var numbers []int64
	for len(numbers) < n {
		got, err := b.wait(ctx, int64(n-len(numbers)))
		if err != nil {
			return numbers, b.failed(n, err)
		}
		for i := range got.Size {
			numbers = append(numbers, got.First+i)
		}
	}
	return numbers, nil
}

// failed says what has failed with err.
func (b *BlockIDs) failed(n int, err error) error {
	switch {
	case b.err != nil:
		return b.err
	case n == 1:
		return fmt.Errorf("recipes: next of %s: %w", b.root.path, bare{err})
	}
	return fmt.Errorf("recipes: next %d of %s: %w", n, b.root.path, bare{err})
}
