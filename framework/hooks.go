package framework

import "time"

// A Hook observes a client, for metrics and traces. It is any value that
// implements one or more of [OperationHook] and [ConnectionHook]. Hooks are
// called synchronously, possibly from several goroutines at a time, and must
// not block or call the client.
type Hook any

// An OperationHook hears of each operation when it ends.
type OperationHook interface {
	OnOperation(OperationInfo)
}

// A ConnectionHook hears of each attempt to connect when it ends, with
// success or not, and of each connection's end.
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

func (s *settings) operationDone(info OperationInfo) {
	for _, h := range s.hooks {
		if h, ok := h.(OperationHook); ok {
			h.OnOperation(info)
		}
	}
}

func (s *settings) connectionStep(info ConnectionInfo) {
	for _, h := range s.hooks {
		if h, ok := h.(ConnectionHook); ok {
			h.OnConnection(info)
		}
	}
}
