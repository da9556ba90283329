package apache

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
)

// process is one run of a server. All methods are safe for concurrent use.
type process struct {
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has ended and been reaped
	ordered atomic.Bool   // its end was asked for
}

// spawn starts a child that dies with us. Its owner is the goroutine that
// waits for it, which ends when the child does.
//
// The kernel sends the parent-death signal when the *thread* that started the
// child ends, not the process (prctl(2), and golang.org/issue/27505). So the
// thread is kept: the goroutine that starts the child holds it until the child
// is gone.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		cmd.SysProcAttr = attributes()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state is kept in cmd
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends sig; a process that has ended meanwhile is no error.
func (p *process) signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill ends the process at once, also when it is paused, and waits for it.
func (p *process) kill() error {
	p.ordered.Store(true)
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.ended
	return nil
}
