package framework

import "time"

// A Hook observes a client, for metrics and traces. It is any value that
// implements one or more of [OperationHook] and [ConnectionHook].
type Hook any

// An OperationHook hears of each operation when it ends, in the goroutine that
// called the operation, which it delays.
type OperationHook interface {
	OnOperation(OperationInfo)
}

// A ConnectionHook hears of each attempt to connect when it ends, with
// success or not, and of each connection's end: in order and soon after, on a
// goroutine which also writes the client's log and which Close waits for.
type ConnectionHook interface {
	OnConnection(ConnectionInfo)
}

// OperationInfo describes an operation that ended.
type OperationInfo struct {
	Op       string
	Path     string
	Attempts int // how often it was tried
	Duration time.Duration
	Err      error
}

// ConnectionInfo describes a step of a connection.
type ConnectionInfo struct {
	Address string
	Session int64 // 0 if no session was established
	Up      bool  // whether the connection was established, or else failed or ended
	Err     error
}

func isHook(h Hook) bool {
	switch h.(type) {
	case OperationHook, ConnectionHook:
		return true
	}
	return false
}

// operationDone must not be called with a lock held.
func (s *settings) operationDone(info OperationInfo) {
	for _, h := range s.hooks {
		if h, ok := h.(OperationHook); ok {
			h.OnOperation(info)
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
