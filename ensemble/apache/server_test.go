package apache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
)

func TestPausedServerIsSilent(t *testing.T) {
	e := start(t, 1)
	s, ctx := e.Server(0), bounded(t)
	must(t, s.Pause())
	must(t, s.Pause()) // twice is once
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if answer, err := s.FourLetter(short, "ruok"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server said %q, %v", answer, err)
	}
	if err := e.WaitServing(ctx); !errors.Is(err, apache.ErrNotRunning) {
		t.Errorf("WaitServing with no server: %v, want ErrNotRunning", err)
	}
	must(t, s.Resume())
	must(t, e.WaitServing(ctx))

	must(t, s.Pause())
	began := time.Now()
	must(t, s.Stop()) // a paused server, too, ends in order
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping a paused server took %v", took)
	}
}

func TestSignalsNeedARunningServer(t *testing.T) {
	e := start(t, 1)
	s := e.Server(0)
	for range 2 {
		must(t, s.Stop())
		must(t, s.Kill())
	}
	for verb, f := range map[string]func() error{"pause": s.Pause, "resume": s.Resume} {
		if err := f(); !errors.Is(err, apache.ErrNotRunning) {
			t.Errorf("%s: %v, want ErrNotRunning", verb, err)
		}
	}
	if _, err := e.Leader(bounded(t)); !errors.Is(err, apache.ErrNotRunning) {
		t.Errorf("Leader: %v, want ErrNotRunning", err)
	}
}

func TestFourLetterRefusesOtherWords(t *testing.T) {
	e := start(t, 1)
	if _, err := e.Server(0).FourLetter(bounded(t), "status"); !errors.Is(err, apache.ErrOption) {
		t.Errorf("%v, want ErrOption", err)
	}
}

func TestRestartKeepsDataAndWipeDoesNot(t *testing.T) {
	for name, end := range map[string]func(*apache.Server) error{
		"restart": func(*apache.Server) error { return nil },
		"stop":    (*apache.Server).Stop,
		"kill":    (*apache.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			s, ctx := e.Server(0), bounded(t)
			create(t, ctx, s.Addr(), "/kept")
			must(t, end(s))
			must(t, s.Restart(ctx))
			must(t, e.WaitServing(ctx))
			if !exists(t, ctx, s.Addr(), "/kept") {
				t.Error("the node is gone")
			}
			if name != "kill" {
				return
			}
			must(t, s.Wipe())
			must(t, s.Restart(ctx))
			must(t, e.WaitServing(ctx))
			if exists(t, ctx, s.Addr(), "/kept") {
				t.Error("the node is still there after Wipe")
			}
		})
	}
}
