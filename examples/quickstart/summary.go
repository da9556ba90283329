package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A check is one line of the summary.
type check struct {
	name string
	text string
	err  error
}

// summary prints what was checked, and returns an error if a check failed.
func (g *game) summary(ctx context.Context, out io.Writer) error {
	r := g.record
	r.mu.Lock()
	defer r.mu.Unlock()
	checks := []check{g.checkTurns(), r.checkOverlaps(), r.checkTokens(), r.checkOrder(), r.checkCrash(), g.checkLeft(ctx)}
	fmt.Fprintln(out)
	var failed []error
	for _, c := range checks {
		if c.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.name, c.err))
			c.text = "FAILED: " + c.err.Error()
		}
		fmt.Fprintf(out, "%-14s %s\n", c.name, c.text)
	}
	return errors.Join(failed...)
}

func (g *game) checkTurns() check {
	got, want := len(g.record.turns), g.contenders*g.turns-(g.turns-1)
	c := check{name: "turns", text: fmt.Sprintf("%d, as many as there should be", got)}
	if got != want {
		c.err = fmt.Errorf("%d, not %d", got, want)
	}
	return c
}

func (r *record) checkOverlaps() check {
	c := check{name: "overlaps", text: "0"}
	var n int
	for i, t := range r.turns {
		if i > 0 && t.granted.Before(r.turns[i-1].ended) || t.ended.IsZero() {
			n++
		}
	}
	if n > 0 {
		c.err = fmt.Errorf("%d", n)
	}
	return c
}

func (r *record) checkTokens() check {
	c := check{name: "tokens", text: "rising with each holder"}
	for i, t := range r.turns {
		if i > 0 && t.token <= r.turns[i-1].token {
			c.err = fmt.Errorf("%s got %#x after %#x", t.name, t.token, r.turns[i-1].token)
		}
	}
	return c
}

// checkOrder compares each holder with who was next when the one before held.
func (r *record) checkOrder() check {
	c := check{name: "order"}
	kept := 0
	for i, t := range r.turns {
		if i == 0 || len(r.turns[i-1].next) == 0 {
			continue
		}
		if next := r.turns[i-1].next[0]; next != t.name {
			c.err = fmt.Errorf("%s was next after %s, but %s came", next, r.turns[i-1].name, t.name)
		}
		kept++
	}
	c.text = fmt.Sprintf("kept, %d times the one who was next came next", kept)
	if kept == 0 {
		c.err = errors.New("nobody was ever waiting")
	}
	return c
}

func (r *record) checkCrash() check {
	c := check{name: "crash"}
	for i, t := range r.turns {
		if t != r.crash {
			continue
		}
		if i+1 == len(r.turns) {
			break
		}
		next := r.turns[i+1]
		if len(t.next) == 0 {
			c.err = fmt.Errorf("nobody stood behind %s", t.name)
			return c
		}
		c.text = fmt.Sprintf("%s's lock went to %s, who was next, when its session was ended by order; a real server waits for the session timeout", t.name, next.name)
		if !r.lostAt.IsZero() {
			c.text = fmt.Sprintf("%s's lock went to %s after %v, %v after %s's lease had ended", t.name, next.name,
				next.granted.Sub(t.ended).Round(time.Millisecond), next.granted.Sub(r.lostAt).Round(time.Millisecond), t.name)
			if next.granted.Before(r.lostAt) {
				c.err = fmt.Errorf("%s got the lock %v before %s's lease ended", next.name, r.lostAt.Sub(next.granted), t.name)
			}
		}
		return c
	}
	c.err = errors.New("nobody took over")
	return c
}

func (g *game) checkLeft(ctx context.Context) check {
	c := check{name: "left behind", text: "nothing"}
	line, err := g.line.Participants(ctx)
	switch {
	case err != nil:
		c.err = err
	case len(line) > 0:
		c.err = fmt.Errorf("%d nodes, the first is %s", len(line), line[0].Path)
	default:
		c.err = g.servers.leftovers(g.judge.Session().ID())
	}
	return c
}
