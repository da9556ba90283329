//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// canPause says why this platform cannot stop a process.
func canPause() error { return nil }

// stop halts a child of this process, and returns when all its threads stand
// still, as the kernel says. It fails if the child ends instead.
func stop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("it has ended, with status %#x", int(status))
		}
	}
}

func cont(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
