package framework

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// core is what a client and its namespaced views share.
type core struct {
	settings
	ensemble Ensemble
	chroot   string
	epoch    time.Time // what now counts from; its monotonic reading matters

	ctx    context.Context // ends when the client closes
	cancel context.CancelFunc

	slots chan struct{} // holds one for each request that awaits its reply
	plain atomic.Bool   // make parents persistent: the server has no containers

	mu        sync.Mutex
	started   bool
	closing   bool
	state     State
	session   *Session
	changed   chan struct{} // closed, and replaced, when a session comes up, or the credentials are refused
	failure   error         // why the last connection failed, nil while it stands
	refusal   error         // of the credentials, nil once a server has accepted them
	listeners []*mailbox[StateChange]
	warned    time.Time // when the log last heard that there is no connection, zero while there is one

	// reports are what the log and the hooks are told, in order and without a
	// lock: they are code of the user.
	reports *mailbox[func()]
	running int           // goroutines that Close waits for
	idle    chan struct{} // closed when closing and running is 0
}

func newCore(ens Ensemble, chroot string, s settings) *core {
	k := &core{
		settings: s,
		ensemble: ens,
		chroot:   chroot,
		epoch:    time.Now(),
		slots:    make(chan struct{}, s.maxInFlight),
		changed:  make(chan struct{}),
		idle:     make(chan struct{}),
	}
	k.reports = &mailbox[func()]{f: func(report func()) { report() }, spawn: k.goReportLocked}
	k.plain.Store(s.plainParents)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// now is the monotonic time since the client was made, in nanoseconds.
func (k *core) now() int64 { return int64(time.Since(k.epoch)) }

// goLocked runs f on a goroutine that close waits for, unless the client is
// closing. It is called with k.mu held.
func (k *core) goLocked(f func()) bool {
	if k.closing {
		return false
	}
	k.countLocked(f)
	return true
}

// goReportLocked is goLocked for reports, which go on while the client is
// closing and others of its goroutines still run.
func (k *core) goReportLocked(f func()) bool {
	if k.closing && k.running == 0 {
		return false
	}
	k.countLocked(f)
	return true
}

func (k *core) countLocked(f func()) {
	k.running++
	go func() {
		defer k.done()
		f()
	}()
}

func (k *core) spawn(f func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.goLocked(f)
}

func (k *core) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running--
	if k.closing && k.running == 0 {
		close(k.idle)
	}
}

// publish is called with k.mu held, which gives the states their order.
func (k *core) publish(c StateChange) {
	if k.closing {
		return
	}
	k.state = c.State
	k.reports.put(func() {
		level := slog.LevelInfo
		if !c.State.IsConnected() {
			level = slog.LevelWarn
		}
		k.logger.Log(context.Background(), level, "connection state", "state", c.State, "session", fmt.Sprintf("%#x", c.Session), "err", c.Err)
	})
	for _, l := range k.listeners {
		l.put(c)
	}
}

func (k *core) removeListener(l *mailbox[StateChange]) {
	l.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = slices.DeleteFunc(k.listeners, func(other *mailbox[StateChange]) bool { return other == l })
}

// sessionUp is called with k.mu held when a session has got a connection.
func (k *core) sessionUp(s *Session, readOnly bool) {
	state := Connected
	switch {
	case readOnly:
		state = ReadOnly
	case k.state != 0:
		state = Reconnected
	}
	k.connectionStepLocked(ConnectionInfo{Address: s.conn.address, Session: s.id, Up: true})
	k.publish(StateChange{State: state, Session: s.id})
	k.refusal = nil
	k.wakeLocked()
}

// refused says that a server refuses the credentials. Who waits for a
// connection hears of it, and so does, whatever else goes wrong later, who
// comes before they are accepted.
func (k *core) refused(address string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refusal == nil {
		k.reports.put(func() { k.logger.Error("credentials refused", "server", address, "err", err) })
	}
	k.refusal = err
	k.wakeLocked()
}

func (k *core) wakeLocked() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// connected returns the present connection. Without one it waits, for as
// long as the connection timeout; with a session, only for that session.
func (k *core) connected(ctx context.Context, only *Session) (*conn, error) {
	var timeout <-chan time.Time
	for {
		c, changed, err := k.current(only)
		if c != nil || err != nil {
			return c, err
		}
		if timeout == nil {
			t := time.NewTimer(k.connectionTimeout)
			defer t.Stop()
			timeout = t.C
		}
		var over <-chan struct{}
		if only != nil {
			over = only.ctx.Done()
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
			return nil, k.noConnection(contextError(ctx))
		case <-k.ctx.Done():
		case <-timeout:
			return nil, k.noConnection(fmt.Errorf("%w: no connection within %v", ErrConnectionLoss, k.connectionTimeout))
		}
	}
}

// noConnection adds to err why there is no connection, if that is known.
func (k *core) noConnection(err error) error {
	failure := k.lastFailure()
	if failure == nil {
		return err
	}
	return fmt.Errorf("%w; the last connection failed: %w", err, failure)
}

// lastFailure returns why the last connection failed, nil while there is one.
func (k *core) lastFailure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure == nil {
		return nil
	}
	return reason{k.failure}
}

// current returns the present connection, and a channel that is closed when
// there may be another.
func (k *core) current(only *Session) (*conn, <-chan struct{}, error) {
	if only != nil {
		if err := only.Err(); err != nil {
			return nil, nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closing:
		return nil, nil, ErrClosed
	case !k.started:
		return nil, nil, ErrNotStarted
	case only != nil && only.core != k:
		return nil, nil, fmt.Errorf("%w: session %#x is another client's", ErrInvalidOption, only.id)
	case only != nil && only.over:
		return nil, nil, context.Cause(only.ctx)
	case k.session != nil && !k.session.over && k.session.conn != nil:
		return k.session.conn, k.changed, nil
	}
	return nil, k.changed, k.refusal
}

// close ends the client. The session is over for its holders before the
// server is told, so that nobody believes to hold what another has got.
func (k *core) close() error {
	k.mu.Lock()
	var listeners []*mailbox[StateChange]
	if !k.closing {
		k.closing = true
		k.state = 0
		listeners, k.listeners = k.listeners, nil
		if k.running == 0 {
			close(k.idle)
		}
	}
	k.mu.Unlock()

	k.cancel()
	for _, l := range listeners {
		l.close()
	}
	t := time.NewTimer(k.closeTimeout)
	defer t.Stop()
	select {
	case <-k.idle:
		return nil
	case <-t.C:
		return fmt.Errorf("framework: goroutines still running %v after Close", k.closeTimeout)
	}
}
