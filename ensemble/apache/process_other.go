//go:build !linux

package apache

import "time"

// None of this is reached: locate fails first.

func (p *process) terminate(time.Duration) error { return p.kill() }

func (p *process) resume() error { return ErrNotInstalled }

func (p *process) pause() error { return ErrNotInstalled }
