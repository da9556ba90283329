package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A process is a holder, seen from the process that started it.
type process struct {
	name     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	messages chan message // closed when the process is gone

	// Set when messages is closed.
	err    error
	errors bytes.Buffer // what it printed to its standard error
}

// startHolder starts this program as a holder. The caller must call kill, also
// after end.
func startHolder(c holderConfig) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: c.name, cmd: exec.Command(program, c.args()...), messages: make(chan message)}
	p.cmd.Stderr = &p.errors
	p.in, err = p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	return p, nil
}

// read is the process's goroutine, and ends with it.
func (p *process) read(out io.Reader) {
	defer close(p.messages)
	for d := json.NewDecoder(out); ; {
		var m message
		if err := d.Decode(&m); err != nil {
			break
		}
		p.messages <- m
	}
	p.err = p.cmd.Wait()
}

// expect waits for the holder's next message, which has to be the given one.
func (p *process) expect(ctx context.Context, event string) (message, error) {
	select {
	case m, ok := <-p.messages:
		switch {
		case !ok:
			return m, p.failure("it has ended too soon")
		case m.Event != event:
			return m, fmt.Errorf("%s says %q, not %q %s", p.name, m.Event, event, m.Why)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("waiting for %s: %w", p.name, context.Cause(ctx))
	}
}

// proceed lets the holder write. It does not wait for it.
func (p *process) proceed() error {
	_, err := io.WriteString(p.in, "go\n")
	return err
}

// pause stops the holder in the middle of what it does, and returns when it
// stands still.
func (p *process) pause() error {
	if err := stop(p.cmd.Process); err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	return nil
}

// resume lets it go on.
func (p *process) resume() error {
	if err := cont(p.cmd.Process); err != nil {
		return fmt.Errorf("continuing %s: %w", p.name, err)
	}
	return nil
}

// end tells the holder that there is no more to do, and waits until it has
// released the lock and ended.
func (p *process) end(ctx context.Context) error {
	p.in.Close()
	for {
		select {
		case _, ok := <-p.messages:
			if !ok && p.err != nil {
				return p.failure("it has failed")
			}
			if !ok {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of %s: %w", p.name, context.Cause(ctx))
		}
	}
}

// kill makes sure that the process is gone, in whatever state it is.
func (p *process) kill() {
	p.cmd.Process.Kill() // fails if it has ended
	for range p.messages {
	}
	p.in.Close()
}

// failure tells of a process that is gone.
func (p *process) failure(what string) error {
	text := strings.TrimSpace(p.errors.String())
	if p.err == nil {
		return fmt.Errorf("%s: %s %s", p.name, what, text)
	}
	return fmt.Errorf("%s: %s: %w %s", p.name, what, p.err, text)
}
