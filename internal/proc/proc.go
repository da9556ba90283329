// Package proc starts child processes that do not outlive this one, and stops
// them. It is for tests.
package proc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// Start starts cmd, in a process group of its own, so that an interrupt typed at
// the terminal reaches only this process. On Linux the child is killed when this
// process ends. When the child has ended, ended is called with what
// [exec.Cmd.Wait] says; before that is called, which closes the pipes, read is
// run if it is not nil.
//
// Both run on a goroutine that is the child's owner and ends with it. The kernel
// sends the parent-death signal when the *thread* that started the child ends,
// not the process (prctl(2), and golang.org/issue/27505). So the goroutine keeps
// its thread until the child is gone.
func Start(cmd *exec.Cmd, read func(), ended func(error)) error {
	cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if read != nil {
			read()
		}
		ended(cmd.Wait())
	}()
	return <-started
}

// Signal sends sig; a process that has ended meanwhile is no error.
func Signal(p *os.Process, sig os.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
