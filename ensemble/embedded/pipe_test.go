package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
)

// silentPipe returns an end of a pipe whose other end neither reads nor
// writes.
func silentPipe(t *testing.T) (*embedded.Server, net.Conn) {
	srv := start(t)
	srv.Silence()
	nc, err := srv.DialContext(context.Background(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return srv, nc
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nc := silentPipe(t)
		began := time.Now()
		expect := func(what string, err error, after time.Duration) {
			t.Helper()
			ne, ok := err.(net.Error)
			if !errors.Is(err, os.ErrDeadlineExceeded) || !ok || !ne.Timeout() || time.Since(began) != after {
				t.Errorf("%s: %v after %v, expected a timeout after %v", what, err, time.Since(began), after)
			}
		}
		b := make([]byte, 1<<20)
		_ = nc.SetReadDeadline(began.Add(3 * time.Second))
		_, err := nc.Read(b)
		expect("read", err, 3*time.Second)
		_, err = nc.Read(b)
		expect("read again", err, 3*time.Second)
		_ = nc.SetDeadline(began.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = nc.SetReadDeadline(time.Now().Add(time.Second)) })
		_, err = nc.Read(b)
		expect("read with a deadline that was moved", err, 5*time.Second)
		_ = nc.SetWriteDeadline(began.Add(6 * time.Second))
		n, err := nc.Write(b)
		expect("write", err, 6*time.Second)
		if n <= 0 || n > 512<<10 {
			t.Errorf("%d bytes were buffered", n)
		}
		_ = nc.SetDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { nc.Close() })
		if _, err := nc.Read(b); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed pipe: %v", err)
		}
		if _, err := nc.Write(b); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write to a closed pipe: %v", err)
		}
		if err := nc.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestPipeEndsWithTheOtherEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, nc := silentPipe(t)
		time.AfterFunc(time.Second, func() { srv.DropConnections() })
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read: %v", err)
		}
		if _, err := nc.Write(bytes.Repeat([]byte("x"), 1<<20)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write: %v", err)
		}
	})
}
