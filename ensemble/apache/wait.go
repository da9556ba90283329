package apache

import (
	"context"
	"fmt"
	"time"
)

const (
	pollInterval = 20 * time.Millisecond
	pollTimeout  = time.Second // for one question to one server
)

// poll calls done until it says so, fails, or ctx is done. What is waited for
// happens in another process, so there is nothing to wait on but the answer.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// running returns the servers that should be answering. It fails if there is
// none, and if one has ended by itself.
func running(servers []*Server) ([]*Server, error) {
	var out []*Server
	for _, s := range servers {
		up, err := s.up()
		if err != nil {
			return nil, err
		}
		if up {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, ErrNotRunning
	}
	return out, nil
}

// awaitAll waits until all of the servers that run meet a condition.
func awaitAll(ctx context.Context, servers []*Server, what string, met func(*Server, context.Context) bool) error {
	var missing *Server
	err := poll(ctx, func() (bool, error) {
		up, err := running(servers)
		if err != nil {
			return false, err
		}
		for _, s := range up {
			if !met(s, ctx) {
				missing = s
				return false, nil
			}
		}
		return true, nil
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("apache: wait until servers %s: %w", what, err)
	if ctx.Err() != nil && missing != nil {
		err = fmt.Errorf("%w; end of the log of server %d:\n%s", err, missing.ID(), missing.logTail())
	}
	return err
}

// WaitServing waits until every server that runs and is not paused serves
// clients, or ctx is done. It fails with [ErrNotRunning] if there is none, and
// with [ErrExited] if one ends by itself.
//
// A server that was cut off, because it or others were paused, may believe for
// a moment that it still serves.
func (e *Ensemble) WaitServing(ctx context.Context) error {
	return awaitAll(ctx, e.servers, "serve", (*Server).serves)
}

func (s *Server) serves(ctx context.Context) bool {
	return s.role(ctx).mode != "" && s.mine(ctx)
}

// Leader waits until one of the servers that run and are not paused says that
// it leads, or ctx is done. Of several, as when a leader has just been resumed,
// it is the one of the latest election. A server that is alone leads. The
// answer may be out of date by the time it is used. It fails as WaitServing
// does.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	var leader *Server
	err := poll(ctx, func() (bool, error) {
		up, err := running(e.servers)
		if err != nil {
			return false, err
		}
		leader = latestLeader(ctx, up)
		return leader != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("apache: find the leader: %w", err)
	}
	return leader, nil
}

func latestLeader(ctx context.Context, servers []*Server) *Server {
	var leader *Server
	var latest uint64
	for _, s := range servers {
		if r := s.role(ctx); r.leads() && (leader == nil || r.zxid > latest) {
			leader, latest = s, r.zxid
		}
	}
	return leader
}
