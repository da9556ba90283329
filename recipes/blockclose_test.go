package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/recipes"
)

// With no server to give numbers back to, Close ends when its time is over and
// says which are lost, as often as it is asked; and they are.
func TestBlockIDsCloseWithoutServers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		ns := newNumbers(t)
		b := w.blocks(recipes.WithBlockSize(100, 100))
		ns.take(w.ctx, b, 10)
		w.link(w.clients[0]).refuse(true)
		w.link(w.clients[0]).drop()
		began := time.Now()
		for range 2 {
			err := b.Close()
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("Close has returned after %v", took)
			}
			wantErr(t, "Close", err, context.DeadlineExceeded)
			if err != nil && !strings.Contains(err.Error(), "40 numbers from 10 on are lost") {
				t.Error(err)
			}
		}
		w.link(w.clients[0]).refuse(false)
		time.Sleep(soon)
		other := w.blocks()
		ns.want(w.ctx, other, 50)
		w.closeBlocks(other)
	})
}

// A generator that was closed says so, and not that its client was.
func TestClosedGenerators(t *testing.T) {
	t.Parallel()
	inIDBubble(t, func(w *world) {
		c := w.client()
		blocks, ids := recipes.NewBlockIDs(c, "/blocks"), recipes.NewSnowflake(recipes.NewWorkerIDs(c, idRoot))
		for name, g := range map[string]struct {
			next  func() error
			close func() error
		}{
			"blocks":    {func() error { _, err := blocks.Next(w.ctx); return err }, blocks.Close},
			"snowflake": {func() error { _, err := ids.Next(w.ctx); return err }, ids.Close},
		} {
			if err := errors.Join(g.next(), g.close()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			err := g.next()
			wantErr(t, name, err, recipes.ErrClosed, recipes.ErrReleased)
			if err != nil && !strings.HasSuffix(err.Error(), ": the generator was closed") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
