package framework_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// TestInvalidOptions: New names each value that it refuses, without any I/O.
func TestInvalidOptions(t *testing.T) {
	for text, opt := range map[string]framework.Option{
		"session timeout 0s":                framework.WithSessionTimeout(0),
		"session timeout -1s":               framework.WithSessionTimeout(-time.Second),
		"session timeout 1ns":               framework.WithSessionTimeout(1),
		"session timeout 2562047h47m16":     framework.WithSessionTimeout(1<<63 - 1),
		"connection timeout -1ns":           framework.WithConnectionTimeout(-1),
		"dial timeout 0s":                   framework.WithDialTimeout(0),
		"close timeout 0s":                  framework.WithCloseTimeout(0),
		"retry policy":                      framework.WithRetry(retry.NTimes(-5, time.Second)),
		"reconnect policy":                  framework.WithReconnect(retry.Exponential(-1, 3)),
		"largest request of 12 bytes":       framework.WithMaxRequest(12),
		"largest reply of -3 bytes":         framework.WithMaxReply(-3),
		"0 requests in flight":              framework.WithMaxInFlight(0),
		"-1 requests in flight":             framework.WithMaxInFlight(-1),
		"the ACL provider is nil":           framework.WithACLProvider(nil),
		"the dialer is nil":                 framework.WithDialer(nil),
		"the TLS config is nil":             framework.WithTLS(nil),
		"the logger is nil":                 framework.WithLogger(nil),
		`authentication scheme ""`:          framework.WithAuth("", nil),
		"SASL is not supported":             framework.WithAuth("sasl", nil),
		"form user:password":                framework.WithAuth("digest", []byte("secret")),
		"form user:password ":               framework.WithAuth("digest", []byte(":secret")),
		"string is no hook":                 framework.WithHooks("hook"),
		"<nil> is no hook":                  framework.WithHooks(nil),
		`invalid path: "/a//b"`:             framework.WithNamespace("a//b"),
		`invalid path: "/a/" ends with /`:   framework.WithNamespace("a/"),
		`invalid path: "/.." has the compo`: framework.WithNamespace(".."),
	} {
		_, err := framework.New(static{}, opt)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%v, want %s", err, text)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells the secret", err)
		}
		if !errors.Is(err, framework.ErrInvalidOption) && !errors.Is(err, framework.ErrInvalidPath) {
			t.Errorf("%v is of no kind", err)
		}
	}
	if _, err := framework.New(nil); !errors.Is(err, framework.ErrInvalidOption) {
		t.Errorf("nil ensemble: %v", err)
	}
	if _, err := framework.New((*embedded.Server)(nil)); !errors.Is(err, framework.ErrInvalidOption) {
		t.Errorf("nil pointer as ensemble: %v", err)
	}
	if _, err := framework.New(static{}, nil); !errors.Is(err, framework.ErrInvalidOption) {
		t.Errorf("nil option: %v", err)
	}
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := framework.New(static{}, framework.WithLogger(slog.Default()), framework.WithRetry(retry.None()), framework.WithNamespace("/"))
	if err != nil {
		t.Fatal(err)
	}
	if c.State() != 0 || c.Session() != nil || c.Logger() != slog.Default() || c.Root() != c {
		t.Fatalf("%v, %v", c.State(), c.Session())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStrings(t *testing.T) {
	for want, s := range map[string]interface{ String() string }{
		"NotConnected": framework.State(0), "Connected": framework.Connected, "Suspended": framework.Suspended,
		"Reconnected": framework.Reconnected, "Lost": framework.Lost, "ReadOnly": framework.ReadOnly, "State(9)": framework.State(9),
		"Persistent": framework.Persistent, "EphemeralSequential": framework.EphemeralSequential, "Mode(-1)": framework.Mode(-1),
		"created": framework.EventCreated, "deleted": framework.EventDeleted, "data changed": framework.EventDataChanged,
		"children changed": framework.EventChildrenChanged, "session ended": framework.EventSessionEnded, "unknown event": framework.EventType(0),
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
