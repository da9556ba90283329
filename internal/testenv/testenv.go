// Package testenv is the one place that decides whether tests use a real
// ZooKeeper server. It is for tests only, and does not import testing.
package testenv

import (
	"context"
	"os"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
)

// Variable turns the tests on real servers on: "1" requires them, so that a
// machine without ZooKeeper fails; unset, empty or "0" skips them.
const Variable = "BATON_APACHE"

// T is the part of *testing.T that is needed here.
type T interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Apache lets a test that needs a real server go on, skips it if such tests
// are not turned on, and fails it if they are but ZooKeeper is not installed.
func Apache(t T) {
	t.Helper()
	switch value := os.Getenv(Variable); value {
	case "", "0":
		t.Skipf("needs a real ZooKeeper server: set %s=1 to run it", Variable)
	case "1":
		if err := apache.Installed(); err != nil {
			t.Fatalf("%s=1 requires a real ZooKeeper server: %v", Variable, err)
		}
	default:
		t.Fatalf("%s=%q is neither 1 nor 0", Variable, value)
	}
}

// StartApache is Apache followed by the start of n servers, which are closed
// when the test ends. It blocks until they serve, for up to a minute.
func StartApache(t T, n int, opts ...apache.Option) *apache.Ensemble {
	t.Helper()
	Apache(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := apache.Start(ctx, n, opts...)
	if err != nil {
		t.Fatalf("starting %d ZooKeeper servers: %v", n, err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Fatalf("closing the ZooKeeper servers: %v", err)
		}
	})
	return e
}
