//go:build linux

package interop

import (
	"fmt"
	"strconv"
	"time"
)

// The events of the verb contend.
const (
	enterEvent = "enter"
	leaveEvent = "leave"
)

// Turns takes what a peer has told of the turns of a lock, in its order. One
// that has begun and not ended, since the peer was killed, ends at the time
// given.
func (p *Peer) Turns(id string, end time.Duration) ([]Turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var turns []Turn
	inside := false
	var rest []Message
	for _, m := range p.events {
		if m.Word(0) != id || m.Kind != enterEvent && m.Kind != leaveEvent {
			rest = append(rest, m)
			continue
		}
		if (m.Kind == enterEvent) == inside {
			return nil, fmt.Errorf("interop: %s: %s says %q twice", p.name, id, m.Kind)
		}
		if inside = !inside; !inside {
			turns[len(turns)-1].Ended = m.At
			continue
		}
		t, err := parseTurn(m)
		if err != nil {
			return nil, fmt.Errorf("interop: %s: %w", p.name, err)
		}
		t.User, t.Ended = p.name+" "+strconv.Itoa(p.PID())+" "+id, end
		turns = append(turns, t)
	}
	p.events = rest
	return turns, nil
}

// parseTurn reads the event of a turn's begin.
func parseTurn(m Message) (Turn, error) {
	t := Turn{Began: m.At, Path: m.Word(2)}
	var err error
	if t.Permits, err = strconv.Atoi(m.Word(1)); err != nil {
		return t, err
	}
	if t.Token, err = strconv.ParseInt(m.Word(3), 10, 64); err != nil {
		return t, err
	}
	asked, err := strconv.ParseInt(m.Word(4), 10, 64)
	if err != nil {
		return t, err
	}
	t.Asked = time.Duration(asked)
	t.Seq, err = Sequence(t.Path)
	return t, err
}

// Sequence reads the number that a server has put behind a node's name.
func Sequence(path string) (int32, error) {
	const digits = 10
	if len(path) < digits {
		return 0, fmt.Errorf("%q has no sequence number", path)
	}
	n, err := strconv.ParseInt(path[len(path)-digits:], 10, 32)
	return int32(n), err
}
