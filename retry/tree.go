package retry

import (
	"context"
	"sync/atomic"
)

// tree is the context that Do hands to its operation. It marks everything
// called from there as being inside a loop that retries already.
//
// A context type of our own, instead of context.WithValue around a state, keeps
// Do at one allocation. Cancellation is passed on by the standard library as
// through its own value contexts, without a goroutine.
type tree struct {
	context.Context

	// ended is set once the loop is over. A context that outlives it, because
	// the operation started something that stays, then counts as unmarked.
	ended atomic.Bool

	// fresh makes this the root of an unmarked tree; see Fresh.
	fresh bool
}

type treeKey struct{}

// Value makes the nearest tree findable from every context derived from it.
func (t *tree) Value(key any) any {
	if key == (treeKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// nested reports whether ctx comes from the operation of a Do still running.
// The nearest mark tells: one is set only where no other is in force above.
func nested(ctx context.Context) bool {
	t, ok := ctx.Value(treeKey{}).(*tree)
	return ok && !t.fresh && !t.ended.Load()
}

// Fresh returns ctx without the mark of the [Do] it comes from: the next Do
// under it retries by its own policy. It is meant for work that has to go
// through whatever becomes of the call around it, such as cleaning up on
// context.WithoutCancel(ctx), which keeps the mark. It is safe for concurrent
// use.
func Fresh(ctx context.Context) context.Context {
	return &tree{Context: ctx, fresh: true}
}
