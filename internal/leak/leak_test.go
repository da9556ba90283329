package leak_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batonzk/baton/internal/leak"
)

// fake records what Check does to a test.
type fake struct {
	cleanups []func()
	errors   []string
}

func (f *fake) Helper() {}

func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fake) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func TestCheckFindsWhatIsLeft(t *testing.T) {
	stay := make(chan struct{})
	defer close(stay)
	f := &fake{}
	leak.Check(f)
	go wait(stay)
	f.cleanups[0]()
	if len(f.errors) != 1 || !strings.Contains(f.errors[0], "leak_test.wait") {
		t.Errorf("reported %q, want the goroutine in wait", f.errors)
	}
}

func TestCheckIgnoresWhatWasThereAndWhatEnds(t *testing.T) {
	stay, end := make(chan struct{}), make(chan struct{})
	defer close(stay)
	go wait(stay)
	f := &fake{}
	leak.Check(f)
	go wait(end)
	close(end)
	f.cleanups[0]()
	if len(f.errors) != 0 {
		t.Errorf("reported %q, want nothing", f.errors)
	}
}

func wait(c chan struct{}) { <-c }
