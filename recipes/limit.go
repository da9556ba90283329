package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// A Limit is how many permits of a semaphore may be out at once. It is made by
// [FixedLimit] or [SharedLimit].
type Limit struct {
	fixed int
	count *SharedCount // the live limit, nil if it is fixed
	err   error
}

// FixedLimit is a limit that is the caller's own, 1 or more. No server knows
// it: each contender goes by the one that it was given. If they differ, the
// permits that are out never exceed the largest, and those with the smaller
// ones wait longer.
func FixedLimit(n int) Limit {
	if n < 1 {
		return Limit{err: fmt.Errorf("%w: a limit of %d permits", framework.ErrInvalidOption, n)}
	}
	return Limit{fixed: n}
}

// SharedLimit is a limit that all contenders read from count, which must be of
// the semaphore's client, or of a view of it. It may change at any time: more
// permits go to those in line at once; fewer take nothing from anybody, and no
// permit is granted by the old limit once the new one is set, unless the count
// was deleted and made again under the grant: then its version may be the same.
// With 0 or less nobody gets a permit.
func SharedLimit(count *SharedCount) Limit {
	switch {
	case count == nil:
		return Limit{err: fmt.Errorf("%w: SharedLimit(nil)", framework.ErrInvalidOption)}
	case count.err != nil:
		return Limit{err: count.err}
	}
	return Limit{count: count}
}

// validate refuses a limit that cannot be one of a semaphore of client.
func (l Limit) validate(client *framework.Client) error {
	switch {
	case l.err != nil:
		return l.err
	case l.count == nil && l.fixed == 0:
		return fmt.Errorf("%w: the limit is not set", framework.ErrInvalidOption)
	case l.count != nil && client != nil && l.count.client.Root() != client.Root():
		return fmt.Errorf("%w: the limit is of another client", framework.ErrInvalidOption)
	}
	return nil
}

// admits refuses what can never be granted.
func (l Limit) admits(n int) error {
	switch {
	case n < 1 && l.count != nil:
		return fmt.Errorf("%w: %d permits, want at least 1, at most what %s says", framework.ErrInvalidOption, n, l.count.path)
	case l.count == nil && (n < 1 || n > l.fixed):
		return fmt.Errorf("%w: %d permits, want at least 1, at most %d", framework.ErrInvalidOption, n, l.fixed)
	}
	return nil
}

// read returns what the limit is now, with a watch if it can change and that
// is asked for.
func (l Limit) read(ctx context.Context, watching bool) (counted, *framework.Watch, error) {
	if l.count == nil {
		return counted{value: l.fixed}, nil, nil
	}
	return l.count.read(ctx, watching)
}

// now returns what the limit is, and makes no count that there is not.
func (l Limit) now(ctx context.Context) (int, error) {
	if l.count == nil {
		return l.fixed, nil
	}
	data, _, _, err := l.count.get(ctx, false)
	if says(ctx, err, framework.ErrNoNode) {
		return int(l.count.seed), nil
	}
	var value int
	if err == nil {
		value, err = decodeCount(data)
	}
	return value, l.count.failed(ctx, err)
}

// errLimitChanged says that permits were to be granted by a limit that is not
// the limit any more.
var errLimitChanged = errors.New("the limit has changed")

// checks are what makes a multi fail with errLimitChanged unless the limit is
// the one that was read.
func (l Limit) checks(read counted) []framework.Op {
	if l.count == nil {
		return nil
	}
	return []framework.Op{framework.CheckOp(l.count.path, read.version).For(l.count.client).Or(errLimitChanged)}
}
