package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// WaitStopped returns when the kernel says that a process stands still: its
// threads on other processors run on for a moment after a signal was sent. It
// fails when ctx is done, or when the process has ended.
func WaitStopped(ctx context.Context, p *os.Process) error {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		if err != nil {
			return err
		}
		// The state follows the name, which is in brackets.
		if i := bytes.LastIndexByte(text, ')'); i >= 0 && bytes.HasPrefix(text[i:], []byte(") T")) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("proc: process %d does not stop: %w", p.Pid, err)
		}
		time.Sleep(time.Millisecond)
	}
}
