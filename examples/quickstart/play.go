package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A game is one run: the contenders, and what is written down of it.
type game struct {
	config
	servers *servers
	path    string
	judge   *framework.Client // takes no part, looks at the line
	line    *recipes.InterProcessMutex
	record  *record
}

// play runs the contenders and checks what happened.
func play(ctx context.Context, cfg config, out io.Writer) error {
	s, err := newServers(cfg)
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	defer s.stop()
	g := &game{config: cfg, servers: s, path: fmt.Sprintf("/baton-quickstart-%x", time.Now().UnixNano())}
	g.judge, err = g.connect(ctx, newWire(s))
	if err != nil {
		return err
	}
	defer g.judge.Close()
	g.line = recipes.NewInterProcessMutex(g.judge, g.path)

	fmt.Fprintf(out, "%d contenders, %d turns each, pass one lock at %s on %s.\n\n", cfg.contenders, cfg.turns, g.path, s.name)
	g.record = newRecord(out)
	err = g.contend(ctx)
	if err == nil {
		err = g.summary(ctx, out)
	}
	return errors.Join(err, g.clean(ctx))
}

// connect returns a client that has a session.
func (g *game) connect(ctx context.Context, w *wire) (*framework.Client, error) {
	c, err := framework.New(g.servers, framework.WithSessionTimeout(g.sessionTimeout), framework.WithDialer(w.Dial))
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if err := c.WaitConnected(wait); err != nil {
		c.Close()
		return nil, fmt.Errorf("no connection to %s: %w", g.servers.name, err)
	}
	return c, nil
}

// contend lets all contenders play, and returns when they have closed their
// sessions. The first gets the lock before the others ask for it.
func (g *game) contend(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done sync.WaitGroup
	for i := range g.contenders {
		c := &contender{game: g, name: string(rune('A' + i)), first: i == 0, crashes: i == g.crasher(), started: make(chan struct{})}
		done.Add(1)
		go func() {
			defer done.Done()
			if err := c.play(ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", c.name, err)) // the others need not go on
			}
		}()
		if i > 0 {
			continue
		}
		select {
		case <-c.started:
		case <-ctx.Done():
		}
	}
	done.Wait()
	return context.Cause(ctx)
}

// next returns the names of those who stand in line behind the holder of a
// lease. It is empty if nobody does, or if the judge's server does not know
// of the holder yet.
func (g *game) next(ctx context.Context, holder *recipes.Lease) ([]string, error) {
	if err := g.judge.Sync(ctx, g.path); err != nil {
		return nil, err
	}
	line, err := g.line.Participants(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, p := range line {
		if i == 0 && p.Path != holder.Path() {
			return nil, nil
		}
		if i > 0 {
			names = append(names, string(p.Data))
		}
	}
	return names, nil
}

// clean removes the lock's path.
func (g *game) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.wait)
	defer cancel()
	err := g.judge.Delete(ctx, g.path, framework.AnyVersion)
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	return err
}

func list(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}
