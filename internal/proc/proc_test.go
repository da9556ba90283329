//go:build linux

package proc_test

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/proc"
)

func TestStopAndKill(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	ended := make(chan error, 1)
	read := false
	if err := proc.Start(cmd, func() { read = true }, func(err error) { ended <- err }); err != nil {
		t.Skip(err)
	}
	running, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := proc.WaitStopped(running, cmd.Process); err == nil || !strings.Contains(err.Error(), "does not stop") {
		t.Errorf("a running process stands still: %v", err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		if err := proc.Signal(cmd.Process, sig); err != nil {
			t.Error(err)
		}
		if sig == syscall.SIGSTOP {
			if err := proc.WaitStopped(t.Context(), cmd.Process); err != nil {
				t.Error(err)
			}
		}
	}
	if err := <-ended; err == nil || !read {
		t.Errorf("it ended with %v, read: %v", err, read)
	}
	if err := proc.Signal(cmd.Process, syscall.SIGTERM); err != nil {
		t.Errorf("to signal one that has ended: %v", err)
	}
	if err := proc.WaitStopped(t.Context(), cmd.Process); err == nil {
		t.Error("one that has ended stands still")
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	err := proc.Start(exec.Command("/no/such/program"), nil, func(error) { t.Error("it ended, without having begun") })
	if err == nil {
		t.Error("no error")
	}
}
