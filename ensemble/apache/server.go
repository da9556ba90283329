package apache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long Stop lets a server end in order.
const patience = 5 * time.Second

// Server is one server of an [Ensemble]. Its methods are safe for concurrent
// use. Those that change its state do not wait for one another: the later one
// wins.
type Server struct {
	layout layout
	addr   string

	mu     sync.Mutex
	proc   *process // nil before the first start; may have ended
	paused bool
	closed bool
}

func newServer(l layout) *Server {
	return &Server{layout: l, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(l.members[l.id-1].client))}
}

// ID returns the server's number in the ensemble, from 1: its "myid".
func (s *Server) ID() int { return s.layout.id }

// Addr returns the "host:port" where clients connect. It does not change.
func (s *Server) Addr() string { return s.addr }

// Stop asks the server to end (SIGTERM), and waits until it has; after five
// seconds it is killed. A server that does not run is no error.
func (s *Server) Stop() error {
	return s.end("stop", func(p *process) error { return p.terminate(patience) })
}

// Kill ends the server at once (SIGKILL), and waits until it is gone. A server
// that does not run is no error.
func (s *Server) Kill() error { return s.end("kill", (*process).kill) }

func (s *Server) end(verb string, how func(*process) error) error {
	s.mu.Lock()
	p := s.proc
	s.paused = false
	s.mu.Unlock()
	if p == nil || !p.running() {
		return nil
	}
	s.layout.options.logger.Info("apache: "+verb, "server", s.layout.id)
	if err := how(p); err != nil {
		return fmt.Errorf("apache: %s server %d: %w", verb, s.layout.id, err)
	}
	return nil
}

// Pause halts the server (SIGSTOP) and returns when it stands still. Its
// connections stay open and silent. A server that does not run fails with
// [ErrNotRunning].
func (s *Server) Pause() error { return s.halt("pause", true, (*process).pause) }

// Resume lets a paused server run on (SIGCONT). A server that does not run
// fails with [ErrNotRunning].
func (s *Server) Resume() error { return s.halt("resume", false, (*process).resume) }

func (s *Server) halt(verb string, paused bool, how func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.running() {
		return fmt.Errorf("%s server %d: %w", verb, s.layout.id, ErrNotRunning)
	}
	s.layout.options.logger.Info("apache: "+verb, "server", s.layout.id)
	if err := how(s.proc); err != nil {
		return fmt.Errorf("apache: %s server %d: %w", verb, s.layout.id, err)
	}
	s.paused = paused
	return nil
}

// Restart stops the server if it runs, starts it with the data it had and on
// the port it had, and waits until it answers there, or ctx is done. It may not
// serve yet, as that takes a majority; see [Ensemble.WaitServing]. When ctx
// ends the wait, the server keeps running.
func (s *Server) Restart(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.Stop(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	return awaitAll(ctx, []*Server{s}, "answer", (*Server).mine)
}

// Wipe stops the server and removes its data. After a Restart it knows
// nothing: if all servers are wiped, or the only one, the ensemble's
// transaction numbers begin again.
func (s *Server) Wipe() error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.layout.data()); err != nil {
		return fmt.Errorf("apache: wipe server %d: %w", s.layout.id, err)
	}
	return nil
}

// start starts the process and does not wait for it to answer.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.proc != nil && s.proc.running():
		return fmt.Errorf("apache: server %d was started by another call", s.layout.id)
	}
	if err := s.spawn(); err != nil {
		return fmt.Errorf("apache: start server %d: %w", s.layout.id, err)
	}
	s.paused = false
	s.layout.options.logger.Info("apache: start", "server", s.layout.id, "addr", s.addr)
	return nil
}

func (s *Server) spawn() error {
	if err := s.layout.write(); err != nil {
		return err
	}
	log, err := os.OpenFile(s.layout.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(s.layout.install.java, s.layout.arguments()...)
	cmd.Dir = s.layout.dir
	// Nothing from our environment, where options for Java may be hidden.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = log, log
	s.proc, err = spawn(cmd)
	return err
}

// close ends the server for good.
func (s *Server) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.Kill()
}

// up reports whether the server should be answering: it runs, and is not
// paused. A server that ended although nobody asked it to is an error.
func (s *Server) up() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false, ErrClosed
	case s.proc == nil:
		return false, nil
	case s.proc.running():
		return !s.paused, nil
	case s.proc.ordered.Load():
		return false, nil
	}
	tail := s.logTail()
	err := fmt.Errorf("%w: server %d, %v; end of its log:\n%s", ErrExited, s.layout.id, s.proc.cmd.ProcessState, tail)
	if strings.Contains(tail, "Address already in use") {
		err = errors.Join(err, errPortTaken)
	}
	return false, err
}

// logTail returns the last lines of the server's log.
func (s *Server) logTail() string {
	const lines = 30
	text, err := os.ReadFile(s.layout.log())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
