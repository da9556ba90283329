package apache

import (
	"os"
	"os/exec"
	"sync/atomic"

	"github.com/batonzk/baton/internal/proc"
)

// process is one run of a server. All methods are safe for concurrent use.
type process struct {
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has ended and been reaped
	ordered atomic.Bool   // its end was asked for
}

// spawn starts a child that dies with us. Its owner is the goroutine that
// waits for it, which ends when the child does.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	// How it ended is kept in cmd.
	if err := proc.Start(cmd, nil, func(error) { close(p.ended) }); err != nil {
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

func (p *process) signal(sig os.Signal) error { return proc.Signal(p.cmd.Process, sig) }

// kill ends the process at once, also when it is paused, and waits for it.
func (p *process) kill() error {
	p.ordered.Store(true)
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.ended
	return nil
}
