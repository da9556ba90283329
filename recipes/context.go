package recipes

import "context"

// A leaseContext is the context of a lease: a context that can be cancelled,
// and is when the hold ends, and that carries the hold.
//
// It hands the standard library's look-ups through to the cancelCtx within,
// Value and Done alike, so that contexts made from it are tied to that one
// directly and without a goroutine.
type leaseContext struct {
	context.Context // cancelled by cancel
	cancel          context.CancelCauseFunc
	keep            func() bool // keeps the end of c from being told to hold
	hold            *hold
	outer           *leaseContext // that parent is made from, nil if none
	// dead is why re-entry fails although the hold may go on, nil if it does
	// not: the context was made by a lease that had been released.
	dead error
}

func newLeaseContext(parent context.Context, l *Lease) *leaseContext {
	c := &leaseContext{hold: l.hold, dead: l.Err()}
	c.outer, _ = parent.Value(outerKey{}).(*leaseContext)
	c.Context, c.cancel = context.WithCancelCause(parent)
	if c.dead != nil {
		c.cancel(c.dead)
		return c
	}
	// A context that ends before its hold must not stay in it.
	c.keep = context.AfterFunc(c.Context, func() { c.hold.forget(c) })
	if err := c.hold.attach(c); err != nil {
		c.end(err)
	}
	if c.Context.Err() != nil {
		c.hold.forget(c)
	}
	return c
}

// end ends c with the hold, which has forgotten it.
func (c *leaseContext) end(err error) {
	c.keep()
	c.cancel(err)
}

// outerKey is the key of the lease context that a context is made from.
type outerKey struct{}

// look ends c if the lease has ended, even if the hold has not come to it yet;
// and before it those that c is made from, whose end is c's too.
func (c *leaseContext) look() {
	if c.outer != nil {
		c.outer.look()
	}
	if err := c.hold.look(); err != nil {
		c.cancel(err)
	}
}

// Err looks at the lease before it answers.
func (c *leaseContext) Err() error {
	c.look()
	return c.Context.Err()
}

// Done looks at the lease before it answers.
func (c *leaseContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Value answers for the hold's key and for outerKey, and else as the parent
// does.
func (c *leaseContext) Value(key any) any {
	if key == c.hold.line.key || key == (outerKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// String names the context as the standard library names its own.
func (c *leaseContext) String() string { return "recipes.Lease.Context(" + c.hold.path + ")" }

// reenter returns another lease of the hold that c carries, or why there is
// none.
func (c *leaseContext) reenter(l *line) (*Lease, error) {
	if c.dead != nil {
		return nil, c.dead
	}
	return c.hold.reenter(l)
}

// live returns why ctx, which c is or is made of, is of no use any more: the
// lease's end or its own. Nil if it is.
func (c *leaseContext) live(ctx context.Context) error {
	err := c.dead
	if err == nil {
		err = c.hold.look()
	}
	if err != nil {
		return withContext(ctx, err)
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return nil
}
