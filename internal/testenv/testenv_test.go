package testenv_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/internal/testenv"
)

// fake ends Apache by a panic, as a test ends by runtime.Goexit.
type fake struct{}

func (fake) Helper() {}

func (fake) Cleanup(func()) {}

func (fake) Context() context.Context { return context.Background() }

func (fake) Skipf(format string, args ...any) { panic("skip: " + fmt.Sprintf(format, args...)) }

func (fake) Fatalf(format string, args ...any) { panic("fatal: " + fmt.Sprintf(format, args...)) }

func outcome() (what string) {
	defer func() {
		if r := recover(); r != nil {
			what = r.(string)
		}
	}()
	testenv.Apache(fake{})
	return "go on"
}

func TestApache(t *testing.T) {
	required := "go on"
	if err := apache.Installed(); err != nil {
		required = "fatal: BATON_APACHE=1 requires a real ZooKeeper server: " + err.Error()
	}
	const skip = "skip: needs a real ZooKeeper server: set BATON_APACHE=1 to run it"
	for value, want := range map[string]string{
		"": skip, "0": skip, "1": required, "yes": `fatal: BATON_APACHE="yes" is neither 1 nor 0`,
	} {
		t.Setenv(testenv.Variable, value)
		if got := outcome(); got != want {
			t.Errorf("%s=%q: %q, want %q", testenv.Variable, value, got, want)
		}
	}
}
