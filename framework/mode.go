package framework

import (
	"fmt"
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// A Mode is what kind of node is created.
type Mode int

// The modes. A sequential node's name gets a ten-digit number appended that
// rises with every child created in the same parent. A TTL, see [TTL], turns a
// persistent node into one that the server removes when it has no children
// and was not changed for that long.
const (
	Persistent           Mode = iota // stays until it is deleted
	Ephemeral                        // goes with the session that created it
	PersistentSequential             // persistent, numbered
	EphemeralSequential              // ephemeral, numbered
	Container                        // removed by the server some time after its last child has gone
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case Persistent:
		return "Persistent"
	case Ephemeral:
		return "Ephemeral"
	case PersistentSequential:
		return "PersistentSequential"
	case EphemeralSequential:
		return "EphemeralSequential"
	case Container:
		return "Container"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

func (m Mode) isEphemeral() bool  { return m == Ephemeral || m == EphemeralSequential }
func (m Mode) isSequential() bool { return m == PersistentSequential || m == EphemeralSequential }

// createRequest returns the operation that creates a node of the mode, and
// its request.
func (m Mode) createRequest(path string, data []byte, acl []ACL, ttl time.Duration) (wire.OpCode, wire.Record) {
	r := wire.CreateRequest{Path: path, Data: data, ACL: wireACLs(acl), Flags: int32(m)}
	switch {
	case ttl > 0 && m == Persistent:
		r.Flags = wire.ModePersistentTTL
	case ttl > 0:
		r.Flags = wire.ModePersistentSequentialTTL
	case m == Container:
		return wire.OpCreateContainer, &r
	default:
		return wire.OpCreate2, &r
	}
	return wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: r, TTL: ttl.Milliseconds()}
}

// validate refuses what no server could make.
func (m Mode) validate(ttl time.Duration, hasTTL bool) error {
	switch {
	case m < Persistent || m > Container:
		return fmt.Errorf("%w: mode %v", ErrInvalidOption, m)
	case !hasTTL:
		return nil
	case m != Persistent && m != PersistentSequential:
		return fmt.Errorf("%w: a TTL of %v with mode %v", ErrInvalidOption, ttl, m)
	case ttl < time.Millisecond || ttl.Milliseconds() > maxTTLMillis:
		return fmt.Errorf("%w: a TTL of %v is not between 1 ms and %v", ErrInvalidOption, ttl, maxTTLMillis*time.Millisecond)
	}
	return nil
}

// maxTTLMillis is what fits into the five bytes that a server keeps a TTL in.
const maxTTLMillis = 1<<40 - 1
