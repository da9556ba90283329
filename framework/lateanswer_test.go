package framework_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// A lateContext is done when ended is closed. Whoever then asks why is told
// only when there is nothing more to hear from the server.
type lateContext struct {
	context.Context
	ended, asked chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.ended }

func (c *lateContext) Err() error {
	select {
	case <-c.ended:
	default:
		return nil
	}
	select {
	case <-c.asked:
	default:
		close(c.asked)
		synctest.Wait()
	}
	return context.Canceled
}

// endsAtReply returns a context that ends when the reply to an operation is on
// its way, and is quicker.
func endsAtReply(srv *embedded.Server, op string) context.Context {
	ctx := &lateContext{Context: context.Background(), ended: make(chan struct{}), asked: make(chan struct{})}
	done := false
	srv.OnReply(func(r embedded.Request) embedded.Verdict {
		if r.Op == op && !done {
			done = true
			close(ctx.ended)
			<-ctx.asked
		}
		return embedded.Pass
	})
	return ctx
}

// TestAnswerAsContextEnds: a write whose answer comes while the call finds that
// ctx is done says what came of it. It must not pass for one that was never
// executed.
func TestAnswerAsContextEnds(t *testing.T) {
	eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
		if !op.write {
			return
		}
		c := connect(t, srv)
		create(t, c, "/n", "")
		if err := op.do(endsAtReply(srv, op.name), c); err != nil && !framework.IsUnknown(err) {
			t.Errorf("executed, and the error is %v", err)
		}
	})
}

// TestProtectedMultiAsContextEnds: nor does a multi leave nodes that nobody
// knows of.
func TestProtectedMultiAsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := inMulti(t, srv)
		results, err := c.Multi(endsAtReply(srv, "multi"), twoNodes()...)
		synctest.Wait()
		n := childrenOf(t, srv)
		if err == nil && (n != 2 || len(results) != 3) || err != nil && n != 0 {
			t.Errorf("%d nodes are there, results %v, error %v", n, results, err)
		}
	})
}
