//go:build linux

package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailLength = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailLength; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// spawn starts cmd, which dies with this process, and calls ended with its end.
//
// The kernel sends the parent-death signal when the thread that started the
// child ends, not the process (prctl(2), and golang.org/issue/27505), so the
// goroutine that starts the child keeps its thread until the child is gone.
// read is run before that is waited for, since Wait closes the pipes.
func spawn(cmd *exec.Cmd, read func(), ended func(error)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		read()
		ended(cmd.Wait())
	}()
	return <-started
}

// signal sends sig; a process that has ended meanwhile is no error.
func signal(p *os.Process, sig os.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// waitStopped returns when the kernel says that a process stands still: its
// threads on other processors run on for a moment after a signal was sent.
func waitStopped(ctx context.Context, p *os.Process) error {
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
			return fmt.Errorf("interop: process %d does not stop: %w", p.Pid, err)
		}
		time.Sleep(time.Millisecond)
	}
}
