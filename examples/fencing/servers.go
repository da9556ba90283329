package main

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// servers are those that the holders use: somebody's, or one in this process
// that they reach over TCP.
type servers struct {
	connect string
	name    string
	own     *embedded.Server // nil until started, and if the servers are somebody's
	tick    time.Duration
}

// newServers does no I/O.
func newServers(c config) (*servers, error) {
	if c.connect == "" {
		return &servers{name: "an embedded server", tick: c.sessionTimeout.Truncate(10*time.Millisecond) / 10}, nil
	}
	_, err := ensemble.NewFixed(c.connect)
	return &servers{connect: c.connect, name: c.connect}, err
}

func (s *servers) start() error {
	if s.connect != "" {
		return nil
	}
	srv, err := embedded.Start(embedded.WithTick(s.tick))
	if err != nil {
		return err
	}
	s.own = srv
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		srv.Close()
		return err
	}
	s.connect = addr.String()
	return nil
}

func (s *servers) stop() {
	if s.own != nil {
		s.own.Close()
	}
}

// leftovers says what the holders have left on the server, as far as it can be
// asked. A session in which nothing was done is not counted: a holder that has
// lost its session begins another, and may end while the server is about to
// tell it so.
func (s *servers) leftovers() error {
	if s.own == nil {
		return nil
	}
	if n := s.own.WatchCount(); n > 0 {
		return fmt.Errorf("%d watches", n)
	}
	for _, session := range s.own.Sessions() {
		if len(session.Ephemerals) > 0 {
			return fmt.Errorf("nodes %q", session.Ephemerals)
		}
	}
	return nil
}

// connected returns a client of the servers that has a session.
func connected(ctx context.Context, c config) (*framework.Client, error) {
	ens, err := ensemble.NewFixed(c.connect)
	if err != nil {
		return nil, err
	}
	client, err := framework.New(ens, framework.WithSessionTimeout(c.sessionTimeout))
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	if err := client.WaitConnected(wait); err != nil {
		client.Close()
		return nil, fmt.Errorf("no connection to %s: %w", c.connect, err)
	}
	return client, nil
}
