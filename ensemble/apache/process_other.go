//go:build !linux

package apache

import (
	"syscall"
	"time"
)

// None of this is reached: locate fails first.

func attributes() *syscall.SysProcAttr { return nil }

func (p *process) terminate(time.Duration) error { return p.kill() }

func (p *process) resume() error { return ErrNotInstalled }

func (p *process) pause() error { return ErrNotInstalled }
