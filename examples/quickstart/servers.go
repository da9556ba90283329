package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// servers are those that the contenders use: somebody's, or one in this
// process.
type servers struct {
	framework.Ensemble
	name string
	own  *embedded.Server // nil until started, and if the servers are somebody's
}

// newServers does no I/O.
func newServers(c config) (*servers, error) {
	if c.connect == "" {
		return &servers{name: "an embedded server"}, nil
	}
	fixed, err := ensemble.NewFixed(c.connect)
	if err != nil {
		return nil, err
	}
	return &servers{Ensemble: fixed, name: c.connect}, nil
}

func (s *servers) start() error {
	if s.Ensemble != nil {
		return nil
	}
	srv, err := embedded.Start()
	if err != nil {
		return err
	}
	s.own, s.Ensemble = srv, srv
	return nil
}

func (s *servers) stop() {
	if s.own != nil {
		s.own.Close()
	}
}

// expire ends a session at once where that is possible. On a real server it
// ends by itself when its timeout has passed.
func (s *servers) expire(id int64) error {
	if s.own == nil {
		return nil
	}
	return s.own.ExpireSession(id)
}

// leftovers says what sessions but the given one have left on the server, as
// far as it can be asked.
func (s *servers) leftovers(mine int64) error {
	if s.own == nil {
		return nil
	}
	if n := s.own.WatchCount(); n > 0 {
		return fmt.Errorf("%d watches", n)
	}
	for _, session := range s.own.Sessions() {
		if session.ID != mine {
			return fmt.Errorf("session %#x", session.ID)
		}
	}
	return nil
}

// A wire is the network of one contender. It can be cut for good, which is
// all that the others see of a crash.
type wire struct {
	dial framework.DialFunc

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

var errCut = errors.New("the process has crashed")

func newWire(s *servers) *wire {
	w := &wire{dial: new(net.Dialer).DialContext}
	if s.own != nil {
		w.dial = s.own.DialContext
	}
	return w
}

func (w *wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", errCut, syscall.ECONNREFUSED)
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

// Cut breaks the connection, without a farewell to the server.
func (w *wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, conn := range w.conns {
		conn.Close()
	}
}
