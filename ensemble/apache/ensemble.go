package apache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/batonzk/baton/ensemble"
)

// Ensemble is a number of servers that run as children of this process. Its
// methods are safe for concurrent use.
type Ensemble struct {
	*ensemble.Fixed // Servers and Chroot

	servers []*Server
	dir     string
	connect string
	closing func() error
}

// Start starts n servers, from 1 to 255, and waits until all of them serve.
// The caller owns the ensemble and has to close it; ctx bounds only the wait.
//
// Errors match [ErrOption], [ErrNotInstalled], [ErrExited], or ctx's error; the
// last two carry the end of the server's log.
func Start(ctx context.Context, n int, opts ...Option) (*Ensemble, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.validate(n); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	install, err := locate()
	if err != nil {
		return nil, err
	}
	// Ports that were free when they were chosen may be taken a moment later.
	for attempt := 1; ; attempt++ {
		e, err := startOnce(ctx, n, install, o)
		if err == nil || attempt == 5 || !errors.Is(err, errPortTaken) {
			return e, err
		}
		o.logger.Warn("apache: a port was taken, trying others", "attempt", attempt)
	}
}

func startOnce(ctx context.Context, n int, install installation, o options) (*Ensemble, error) {
	e, err := newEnsemble(n, install, o)
	if err != nil {
		return nil, err
	}
	for _, s := range e.servers {
		if err := s.start(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	if err := e.WaitServing(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// newEnsemble chooses ports and makes the folder, but starts nothing.
func newEnsemble(n int, install installation, o options) (*Ensemble, error) {
	members, err := choosePorts(n)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "baton-zookeeper-")
	if err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	// The path as the server sees it; see Server.mine.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	e := &Ensemble{dir: dir}
	e.closing = sync.OnceValue(e.close)
	var addrs []string
	for i := range n {
		s := newServer(layout{
			id: i + 1, members: members, install: install, options: o,
			dir: filepath.Join(dir, fmt.Sprintf("server-%d", i+1)),
		})
		e.servers = append(e.servers, s)
		addrs = append(addrs, s.addr)
	}
	e.connect = strings.Join(addrs, ",")
	if e.Fixed, err = ensemble.NewFixed(e.connect); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Connect returns the connect string, "127.0.0.1:port,127.0.0.1:port". It does
// not change.
func (e *Ensemble) Connect() string { return e.connect }

// Len returns the number of servers, running or not.
func (e *Ensemble) Len() int { return len(e.servers) }

// Server returns server i, from 0. It panics if there is none.
func (e *Ensemble) Server(i int) *Server { return e.servers[i] }

// Close kills the servers that still run, waits until they are gone, and
// removes their folder. It may be called more than once, and concurrently:
// every call waits for the end and returns the same error.
func (e *Ensemble) Close() error { return e.closing() }

func (e *Ensemble) close() error {
	errs := make([]error, len(e.servers))
	var wg sync.WaitGroup
	for i, s := range e.servers {
		wg.Go(func() { errs[i] = s.close() })
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), os.RemoveAll(e.dir))
}

// An Ensemble can be handed to a client as its provider.
var _ interface {
	Servers(ctx context.Context) ([]net.Addr, error)
	Chroot() string
} = (*Ensemble)(nil)
