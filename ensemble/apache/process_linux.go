package apache

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// attributes of a child: killed when its parent ends, and in a process group of
// its own, so that an interrupt typed at the terminal reaches only the parent,
// which then closes the ensemble in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// terminate asks the process to end, waits up to patience, then kills it.
func (p *process) terminate(patience time.Duration) error {
	p.ordered.Store(true)
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.signal(syscall.SIGCONT); err != nil { // it may be paused
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
		return p.kill()
	}
}

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }

// pause stops the process and waits until the kernel says that it has stopped:
// threads on other processors run on for a moment after the signal was sent.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	stat := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
	for range 1000 {
		text, err := os.ReadFile(stat)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotRunning, err)
		}
		// The state follows the name, which is in brackets.
		if end := bytes.LastIndexByte(text, ')'); end >= 0 && bytes.HasPrefix(text[end:], []byte(") T")) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("apache: process %d did not stop within a second", p.cmd.Process.Pid)
}
