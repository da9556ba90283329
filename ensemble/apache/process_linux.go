package apache

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/batonzk/baton/internal/proc"
)

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

// pause stops the process and waits until the kernel says that it has stopped.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := proc.WaitStopped(ctx, p.cmd.Process)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return err
}
