package framework

import (
	"context"
	"time"
)

// A Hook observes a client, for metrics and traces. It is any value that
// implements one or more of [OperationHook] and [ConnectionHook].
type Hook any

// An OperationHook hears of each operation when it ends, in the goroutine that
// called the operation, which it delays. The context is the operation's, and may
// be done.
type OperationHook interface {
	OnOperation(context.Context, OperationInfo)
}

// A ConnectionHook hears of each attempt to connect when it ends, with
// success or not, of each failure to learn of a server to try, and of each
// connection's end: in order and soon after, on a goroutine which also writes
// the client's log and which Close waits for.
type ConnectionHook interface {
	OnConnection(ConnectionInfo)
}

// OperationInfo describes an operation that ended.
type OperationInfo struct {
	Op string // ZooKeeper's name of it, such as "create2"
	// Path is as in [Error]. It is for traces: as a metric's label it would have
	// no bound.
	Path     string
	Session  int64 // in which it was tried last, 0 if it found none
	Attempts int   // how often it was tried, 0 if it was refused before
	Duration time.Duration
	Unknown  bool // as in [Error]
	Err      error
}

// ConnectionInfo describes a step of a connection.
type ConnectionInfo struct {
	Address string // "" if there was no server to try
	Session int64  // of the connection that is up or has ended; 0 for a failed attempt
	Up      bool   // whether the connection was established, or else failed or ended
	Err     error
}

func isHook(h Hook) bool {
	switch h.(type) {
	case OperationHook, ConnectionHook:
		return true
	}
	return false
}

// observed tells the hooks how o ended. It must not be called with a lock held.
func (o *operation) observed(ctx context.Context, began time.Time, tries int, err error) {
	for _, h := range o.client.core.hooks {
		if h, ok := h.(OperationHook); ok {
			h.OnOperation(ctx, OperationInfo{
				Op: o.name.String(), Path: o.path, Session: o.session, Attempts: tries,
				Duration: time.Since(began), Unknown: err != nil && o.unknown, Err: err,
			})
		}
	}
}

func (k *core) connectionStep(info ConnectionInfo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connectionStepLocked(info)
}

func (k *core) connectionStepLocked(info ConnectionInfo) {
	k.failure = info.Err
	k.warnLocked(info)
	for _, h := range k.hooks {
		if h, ok := h.(ConnectionHook); ok {
			k.reports.put(func() { h.OnConnection(info) })
		}
	}
}

// quiet is how long the log hears nothing of further failures to connect.
const quiet = 10 * time.Second

// warnLocked has the first of a row of failed attempts logged, and then one at
// times.
func (k *core) warnLocked(info ConnectionInfo) {
	if info.Up || info.Session != 0 {
		k.warned = time.Time{}
		return
	}
	if k.closing || time.Since(k.warned) < quiet {
		return
	}
	k.warned = time.Now()
	k.reports.put(func() { k.logger.Warn("cannot connect", "server", info.Address, "err", info.Err) })
}
