package apache_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/internal/leak"
	"github.com/batonzk/baton/internal/testenv"
)

func TestStartRefusesOptions(t *testing.T) {
	for _, c := range []struct {
		n     int
		opt   apache.Option
		named string
	}{
		{0, apache.WithFsync(true), "0"},
		{-1, apache.WithFsync(true), "-1"},
		{256, apache.WithFsync(true), "256"},
		{1, apache.WithTick(0), "0s"},
		{1, apache.WithTick(-time.Second), "-1s"},
		{1, apache.WithTick(1500 * time.Microsecond), "1.5ms"},
		{1, apache.WithContainerCheckInterval(-time.Second), "-1s"},
		{1, apache.WithContainerCheckInterval(time.Microsecond), "1µs"},
		{1, apache.WithConfig("tickTime=7", "verbose"), `"verbose"`},
		{1, apache.WithConfig("a=b\nc=d"), `"a=b\nc=d"`},
		{1, apache.WithProperty("", "value"), `"=value"`},
		{1, apache.WithLogger(nil), "logger"},
	} {
		_, err := apache.Start(t.Context(), c.n, c.opt)
		if !errors.Is(err, apache.ErrOption) || !strings.Contains(err.Error(), c.named) {
			t.Errorf("%v, want ErrOption naming %s", err, c.named)
		}
	}
}

func TestStartFailsOnADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := apache.Start(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

// A server that cannot start is an error with the server's own words in it, and
// leaves nothing. A taken port is worth more than one try.
func TestStartTellsWhyItFailed(t *testing.T) {
	testenv.Apache(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range []struct {
		name, line, named string
		tries             int
	}{
		{"port", "clientPort=" + port, "Address already in use", 5},
		{"config", "tickTime=soon", "soon", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			leak.Check(t)
			var log strings.Builder
			_, err := apache.Start(bounded(t), 1, apache.WithConfig(c.line), apache.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if !errors.Is(err, apache.ErrExited) || !strings.Contains(err.Error(), c.named) {
				t.Errorf("%v, want ErrExited with %q", err, c.named)
			}
			if tries := strings.Count(log.String(), "apache: start"); tries != c.tries {
				t.Errorf("%d tries, want %d; log:\n%s", tries, c.tries, log.String())
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	testenv.Apache(t)
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // no virtual machine is that quick
	defer cancel()
	if _, err := apache.Start(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// Where ZooKeeper is not installed, the error says what to install.
func TestInstalled(t *testing.T) {
	err := apache.Installed()
	if err == nil {
		return
	}
	if !errors.Is(err, apache.ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("%v, want ErrNotInstalled with the command", err)
	}
	if _, startErr := apache.Start(t.Context(), 1); !errors.Is(startErr, apache.ErrNotInstalled) {
		t.Errorf("Start: %v, want ErrNotInstalled", startErr)
	}
}
