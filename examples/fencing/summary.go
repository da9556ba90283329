package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// A record is what happened.
type record struct {
	tokenA, tokenB, againB int64
	firstB, lateA, secondB map[string]string // refusals, by resource
	lostA                  string
	found                  found // after A's late write
}

// found is what the resources hold.
type found struct {
	table, unchecked map[string]string
	page             string
}

// look notes what the resources hold now.
func (g *game) look(ctx context.Context) error {
	var f found
	var errs [3]error
	f.table, errs[0] = table{g.db}.read(ctx, "report")
	f.unchecked, errs[1] = table{g.db}.read(ctx, "unchecked_report")
	f.page, errs[2] = getPage(ctx, g.page)
	g.record.found = f
	return errors.Join(errs[:]...)
}

func getPage(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true // no connection is kept
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// A check is one line of the summary.
type check struct {
	name string
	text string
	err  error
}

// summary prints what was checked, and returns an error if a check failed.
func (g *game) summary(ctx context.Context) error {
	fmt.Fprintln(g.out)
	var failed []error
	for _, c := range append(g.record.checks(), g.checkLeft(ctx)) {
		if c.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.name, c.err))
			c.text = "FAILED: " + c.err.Error()
		}
		fmt.Fprintf(g.out, "%-16s %s\n", c.name, c.text)
	}
	return errors.Join(failed...)
}

func (r *record) checks() []check {
	return []check{r.checkTokens(), r.checkTable(), r.checkGate(), r.checkUnchecked(), r.checkSame(), r.checkLost()}
}

func (r *record) checkTokens() check {
	c := check{name: "tokens", text: fmt.Sprintf("B's %#x is higher than A's %#x", r.tokenB, r.tokenA)}
	if r.tokenA <= 0 || r.tokenB <= r.tokenA {
		c.err = fmt.Errorf("that of A is %#x, and that of B, after it, %#x", r.tokenA, r.tokenB)
	}
	return c
}

func (r *record) checkTable() check {
	c := check{name: resourceTable, text: "refused A's late write, and has what B wrote"}
	c.err = r.refusedA(resourceTable)
	if want := reportOf("B", 1); c.err == nil && !maps.Equal(r.found.table, want) {
		c.err = fmt.Errorf("it has %v, not %v", r.found.table, want)
	}
	return c
}

func (r *record) checkGate() check {
	c := check{name: resourceGate, text: "refused A's late write, and has what B wrote"}
	c.err = r.refusedA(resourceGate)
	if want := pageOf("B", 1); c.err == nil && r.found.page != want {
		c.err = fmt.Errorf("it has %q, not %q", r.found.page, want)
	}
	return c
}

// refusedA says if a resource did not accept B's first write, or did accept
// A's late one.
func (r *record) refusedA(resource string) error {
	if why := r.firstB[resource]; why != "" {
		return fmt.Errorf("refused what B wrote: %s", why)
	}
	if r.lateA[resource] == "" {
		return errors.New("accepted A's late write")
	}
	return nil
}

// checkUnchecked asserts the damage: without it nothing was shown.
func (r *record) checkUnchecked() check {
	c := check{name: resourceUnchecked, text: "compares no tokens: what B wrote was overwritten by A"}
	if want := reportOf("A", 1); r.lateA[resourceUnchecked] != "" || !maps.Equal(r.found.unchecked, want) {
		c.err = fmt.Errorf("it has %v, not %v", r.found.unchecked, want)
	}
	return c
}

func (r *record) checkSame() check {
	c := check{name: "equal token", text: "accepted: B wrote twice in one hold"}
	if r.againB != r.tokenB {
		c.err = fmt.Errorf("that of B was %#x, and then %#x", r.tokenB, r.againB)
	}
	for _, resource := range resources {
		if why := r.secondB[resource]; why != "" {
			c.err = fmt.Errorf("%s: B's second write was refused: %s", resource, why)
		}
	}
	return c
}

func (r *record) checkLost() check {
	c := check{name: "lease", text: "A's first look after its write said that it is lost"}
	if r.lostA == "" {
		c.err = errors.New("not found lost by A")
	}
	return c
}

func (g *game) checkLeft(ctx context.Context) check {
	c := check{name: "left behind", text: "nothing"}
	line, err := g.participants(ctx)
	switch {
	case err != nil:
		c.err = err
	case len(line) > 0:
		c.err = fmt.Errorf("%d nodes, the first is %s", len(line), line[0].Path)
	default:
		c.err = g.servers.leftovers()
	}
	return c
}
