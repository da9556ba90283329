package recipes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
)

// A lock whose holders leave no markers, or whose rule does not tell what they
// mean, does not promise a grace.
func TestGraceUnsupported(t *testing.T) {
	t.Parallel()
	r := &rule{label: "lease-"}
	l := newLock("semaphore", nil, "/s", r, newSettings([]Option{GraceAfterCrash(time.Second)}))
	if _, err := l.Acquire(t.Context()); !errors.Is(err, framework.ErrInvalidOption) || !strings.Contains(err.Error(), "not supported by a semaphore") {
		t.Errorf("Acquire: %v", err)
	}
	l = newLock("semaphore", nil, "/s", r, newSettings(nil))
	if _, err := l.Acquire(t.Context()); strings.Contains(err.Error(), "GraceAfterCrash") {
		t.Errorf("Acquire without the option: %v", err)
	}
}
