package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/internal/testenv"
)

// The test binary is also the program that is started as a holder.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holderCommand {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// needsPause skips a test where the example cannot run.
func needsPause(t *testing.T) {
	t.Helper()
	if err := canPause(); err != nil {
		t.Skip(err)
	}
}

func TestFencing(t *testing.T) {
	needsPause(t)
	t.Setenv("TMPDIR", t.TempDir())
	checkRun(t, nil)
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}

func TestFencingOnApache(t *testing.T) {
	needsPause(t)
	e := testenv.StartApache(t, 1)
	checkRun(t, []string{"-connect", e.Connect()})
	checkRun(t, []string{"-connect", e.Connect() + "/a/chroot"})
}

func checkRun(t *testing.T, args []string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, nil, &out, &errs)
	if code != 0 || errs.Len() > 0 || strings.Contains(out.String(), "FAILED") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	for _, want := range []string{
		"A is stopped (SIGSTOP)",
		"A writes to the SQL table:       refused: stale token",
		"A writes to the HTTP gate:       refused: stale token",
		"A writes to the unchecked table: accepted",
		"lease lost",
		"left behind      nothing",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not say %q:\n%s", want, out.String())
		}
	}
}

func TestBadArguments(t *testing.T) {
	for value, args := range map[string][]string{
		"-session-timeout 99ms": {"-session-timeout", "99ms"},
		"-wait -1s":             {"-wait", "-1s"},
		`"here"`:                {"here"},
		"unknown":               {"-unknown"},
		"99999":                 {"-connect", "host:99999"},
		"/a//b":                 {"-connect", "host:2181/a//b"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 2 || out.Len() > 0 {
			t.Errorf("%v: exit code %d, want 2\n%s", args, code, out.String())
		}
		if !strings.Contains(errs.String(), value) {
			t.Errorf("%v: the error does not name %s: %s", args, value, errs.String())
		}
	}
	if code := run(t.Context(), []string{"-help"}, nil, io.Discard, io.Discard); code != 0 {
		t.Errorf("-help: exit code %d", code)
	}
}

func TestNoServer(t *testing.T) {
	needsPause(t)
	var out, errs bytes.Buffer
	args := []string{"-connect", "127.0.0.1:1", "-wait", "50ms"}
	if code := run(t.Context(), args, nil, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.Contains(errs.String(), "127.0.0.1:1") {
		t.Errorf("the error does not name the server: %s", errs.String())
	}
}

// trip calls back when something is printed.
type trip struct {
	on   string
	call func()
}

func (w trip) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.on) {
		w.call()
	}
	return len(b), nil
}

// However far it has come, nothing is left of an interrupted run, which
// includes a process that is stopped.
func TestInterrupted(t *testing.T) {
	needsPause(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, on := range []string{"Two processes", "A is stopped", "B asks", "A goes on", "B still holds"} {
		ctx, cancel := context.WithCancel(t.Context())
		var errs bytes.Buffer
		if code := run(ctx, nil, nil, trip{on, cancel}, &errs); code != 1 {
			t.Errorf("%s: exit code %d, want 1", on, code)
		}
		cancel()
		if !strings.Contains(errs.String(), context.Canceled.Error()) {
			t.Errorf("%s: %s", on, errs.String())
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}

// What a holder says when it fails arrives.
func TestHolderFails(t *testing.T) {
	c := holderConfig{config: config{connect: "127.0.0.1:1"}, name: "A", database: filepath.Join(t.TempDir(), "none", "report.db")}
	p, err := startHolder(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if _, err := p.expect(t.Context(), eventWriting); err == nil || !strings.Contains(err.Error(), "unable to open database") {
		t.Error(err)
	}
	if err := p.end(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Error(err)
	}
	if canPause() == nil {
		if err := p.pause(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("one that has ended was stopped: %v", err)
		}
	}
}

// The checks can fail.
func TestChecksFail(t *testing.T) {
	good := func() *record {
		accepted := func() map[string]string {
			return map[string]string{resourceTable: "", resourceGate: "", resourceUnchecked: ""}
		}
		return &record{
			tokenA: 1, tokenB: 2, againB: 2, lostA: "lost",
			firstB: accepted(), secondB: accepted(),
			lateA: map[string]string{resourceTable: "stale", resourceGate: "stale", resourceUnchecked: ""},
			found: found{table: reportOf("B", 1), page: pageOf("B", 1), unchecked: reportOf("A", 1)},
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(r *record)
	}{
		{"", func(*record) {}},
		{"tokens", func(r *record) { r.tokenA = 2 }},
		{"tokens", func(r *record) { r.tokenA = 0 }},
		{resourceTable, func(r *record) { r.lateA[resourceTable] = "" }},
		{resourceTable, func(r *record) { r.firstB[resourceTable] = "stale" }},
		{resourceTable, func(r *record) { r.found.table["author"] = "A" }},
		{resourceGate, func(r *record) { r.lateA[resourceGate] = "" }},
		{resourceGate, func(r *record) { r.found.page = pageOf("A", 1) }},
		{resourceUnchecked, func(r *record) { r.found.unchecked = reportOf("B", 1) }},
		{"equal token", func(r *record) { r.againB = 3 }},
		{"equal token", func(r *record) { r.secondB[resourceGate] = "stale" }},
		{"lease", func(r *record) { r.lostA = "" }},
	} {
		r := good()
		c.spoil(r)
		for _, got := range r.checks() {
			if (got.err != nil) != (got.name == c.name) {
				t.Errorf("spoilt %q: the check %q says %v", c.name, got.name, got.err)
			}
		}
	}
}
