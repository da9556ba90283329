// Package leak checks that a test leaves no goroutine behind. It is for tests
// only, and does not import testing.
package leak

import "go.uber.org/goleak"

// T is the part of *testing.T that is needed here.
type T interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Check makes the test fail if, when it ends, a goroutine is left that was not
// there when Check was called. What the test cleans up has to be registered
// after Check, so that it is gone by then. The goroutines have about half a
// second to end.
//
// All goroutines of the process are looked at: a test with Check must not run
// in parallel with others. Inside a bubble of testing/synctest it is not
// needed, since the bubble does not end before its goroutines have.
func Check(t T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		t.Helper()
		if err := goleak.Find(before); err != nil {
			t.Errorf("goroutines are left: %v", err)
		}
	})
}
