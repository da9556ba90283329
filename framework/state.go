package framework

import "fmt"

// A State is what a client knows about its connection. The names and
// meanings are Curator's.
type State int

// The states of a client. A client that never connected has none of them.
const (
	// Connected: the first session of the client's life was established.
	Connected State = iota + 1
	// Suspended: the connection broke. The session may still live, and
	// whether what it holds is still held is unknown until Reconnected or Lost.
	Suspended
	// Reconnected: connected again, in the same session or, after Lost, in a
	// new one.
	Reconnected
	// Lost: the session is over, by the server's word or because the local
	// deadline passed. Every ephemeral node of it is, or will soon be, gone.
	Lost
	// ReadOnly: connected to a server that has lost its quorum and serves
	// reads only. See [WithReadOnly].
	ReadOnly
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case 0:
		return "NotConnected"
	case Connected:
		return "Connected"
	case Suspended:
		return "Suspended"
	case Reconnected:
		return "Reconnected"
	case Lost:
		return "Lost"
	case ReadOnly:
		return "ReadOnly"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// IsConnected reports whether operations can be sent in this state.
func (s State) IsConnected() bool { return s == Connected || s == Reconnected || s == ReadOnly }

// A StateChange is one step of a client's connection.
type StateChange struct {
	State State
	// Session is the session that the step is about.
	Session int64
	// Err says why, for Suspended and Lost.
	Err error
}
