package apache

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// FourLetter sends one of the server's four-letter words, such as "srvr",
// "mntr" or "cons", and returns the answer. It blocks until the server has
// answered or ctx is done; a paused server does not answer.
func (s *Server) FourLetter(ctx context.Context, word string) (string, error) {
	if len(word) != 4 {
		return "", fmt.Errorf("%w: %q does not have four letters", ErrOption, word)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", s.addr)
	if err != nil {
		return "", fmt.Errorf("apache: %s to server %d: %w", word, s.layout.id, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	answer, err := exchange(conn, word)
	if ctx.Err() != nil {
		err = ctx.Err() // the connection was closed under the exchange
	}
	if err != nil {
		return "", fmt.Errorf("apache: %s to server %d: %w", word, s.layout.id, err)
	}
	return answer, nil
}

func exchange(conn net.Conn, word string) (string, error) {
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// role is what a server says of itself.
type role struct {
	mode string // "leader", "follower", "observer", "standalone", or "" for none
	zxid uint64 // the last transaction, whose upper half is the leader's epoch
}

func (r role) leads() bool { return r.mode == "leader" || r.mode == "standalone" }

// role asks the server for its role. A server that does not answer has none.
func (s *Server) role(ctx context.Context) role {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	answer, err := s.FourLetter(ctx, "srvr")
	if err != nil {
		return role{}
	}
	var r role
	for line := range strings.Lines(answer) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "Mode":
			r.mode = value
		case "Zxid":
			r.zxid, _ = strconv.ParseUint(value, 0, 64)
		}
	}
	return r
}

// mine reports whether it is this server that answers on its port, and not a
// stranger who took the port first: the working folder tells.
func (s *Server) mine(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	answer, err := s.FourLetter(ctx, "envi")
	return err == nil && strings.Contains(answer, "user.dir="+s.layout.dir+"\n")
}
