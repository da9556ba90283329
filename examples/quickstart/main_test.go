package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuickstart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{},
		{"-contenders", "2", "-turns", "1", "-work", "1ms"},
		{"-contenders", "2", "-turns", "2", "-work", "1ms"},
		{"-contenders", "3", "-turns", "1", "-work", "1ms"},
		{"-contenders", "26", "-turns", "4", "-work", "1ms"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			checkRun(t, args)
		})
	}
}

func TestQuickstartOnApache(t *testing.T) {
	t.Parallel()
	e := testenv.StartApache(t, 1)
	checkRun(t, []string{"-connect", e.Connect(), "-session-timeout", "1s"})
	checkRun(t, []string{"-connect", e.Connect() + "/a/chroot", "-session-timeout", "1s"})
}

func checkRun(t *testing.T, args []string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, &out, &errs)
	if code != 0 || errs.Len() > 0 || strings.Contains(out.String(), "FAILED") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	wants := []string{"crashes while it holds", "left behind    nothing", "overlaps       0"}
	if !slices.Contains(args, "-connect") { // what is shown is no failover time
		wants = append(wants, "the test server is told to end the session", "a real server waits for the session timeout")
	}
	for _, want := range wants {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q:\n%s", want, out.String())
		}
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for value, args := range map[string][]string{
		"1 ":               {"-contenders", "1"},
		"27 ":              {"-contenders", "27"},
		"-turns 0":         {"-turns", "0"},
		"-work 0s":         {"-work", "0"},
		"-wait -1s":        {"-wait", "-1s"},
		"-session-timeout": {"-session-timeout", "0"},
		`"here"`:           {"here"},
		"unknown":          {"-unknown"},
		"99999":            {"-connect", "host:99999"},
		"/a//b":            {"-connect", "host:2181/a//b"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 2 || out.Len() > 0 {
			t.Errorf("%v: exit code %d, want 2\n%s", args, code, out.String())
		}
		if !strings.Contains(errs.String(), value) {
			t.Errorf("%v: the error does not name %s: %s", args, value, errs.String())
		}
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"-help"}, &errs, &errs); code != 0 {
		t.Errorf("-help: exit code %d", code)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	args := []string{"-connect", "127.0.0.1:1", "-wait", "50ms"}
	if code := run(t.Context(), args, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.Contains(errs.String(), "127.0.0.1:1") {
		t.Errorf("the error does not name the server: %s", errs.String())
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-work", "10s"}, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1\n%s", code, errs.String())
	}
}

// The checks can fail.
func TestChecksFail(t *testing.T) {
	t.Parallel()
	good := func() *record {
		r := newRecord(nil)
		for i := range 4 {
			at := r.began.Add(time.Duration(i) * time.Second)
			r.turns = append(r.turns, &turn{
				name: fmt.Sprint(i), token: int64(i + 1), granted: at, ended: at.Add(time.Second / 2),
				next: []string{fmt.Sprint(i + 1)},
			})
		}
		r.crash = r.turns[1]
		r.lostAt = r.turns[1].ended.Add(time.Millisecond)
		return r
	}
	checks := func(r *record) []check {
		g := &game{config: config{contenders: 2, turns: 2}, record: r} // four, less one by the crash
		return []check{g.checkTurns(), r.checkOverlaps(), r.checkTokens(), r.checkOrder(), r.checkCrash()}
	}
	for name, spoil := range map[string]func(r *record){
		"":         func(r *record) { r.turns = r.turns[:3] },
		"turns":    func(*record) {},
		"overlaps": func(r *record) { r.turns = r.turns[:3]; r.turns[1].ended = r.turns[2].granted.Add(1) },
		"tokens":   func(r *record) { r.turns = r.turns[:3]; r.turns[2].token = 2 },
		"order":    func(r *record) { r.turns = r.turns[:3]; r.turns[1].next = []string{"3", "2"} },
		"crash":    func(r *record) { r.turns = r.turns[:3]; r.lostAt = r.turns[2].granted.Add(1) },
	} {
		r := good()
		spoil(r)
		for _, c := range checks(r) {
			if (c.err != nil) != (c.name == name) {
				t.Errorf("spoilt %q: the check %q says %v", name, c.name, c.err)
			}
		}
	}
	r := good()
	r.turns, r.crash.next = r.turns[:3], nil
	if c := r.checkCrash(); c.err == nil {
		t.Errorf("nobody stood behind the one that crashed, and the check says %q", c.text)
	}
}
