package recipes

import (
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// A WorkerOption changes one setting of [WorkerIDs].
type WorkerOption func(*workerSettings)

type workerSettings struct {
	layout      Layout
	first, last int
	ranged      bool
	preferred   int // -1 for none
	owner       string
	window      time.Duration
	maxSkew     time.Duration
	wait        bool
	wall        func() time.Time
	err         error
}

const (
	defaultWindow  = 10 * time.Second
	defaultMaxSkew = 10 * time.Second
	shortestWindow = 100 * time.Millisecond
	longestWindow  = time.Hour
)

func newWorkerSettings(opts []WorkerOption) workerSettings {
	s := workerSettings{
		layout: DefaultLayout(), preferred: -1, owner: string(hostAndPID()),
		window: defaultWindow, maxSkew: defaultMaxSkew, wall: time.Now,
	}
	nilOption := apply(&s, opts)
	if !s.ranged {
		s.last = s.layout.Workers() - 1
	}
	s.err = errors.Join(s.err, nilOption, s.validate())
	return s
}

func (s *workerSettings) validate() error {
	if err := s.layout.Validate(); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", framework.ErrInvalidOption, fmt.Sprintf(format, args...))
	}
	switch {
	case s.last < s.first:
		return refuse("no worker numbers: from %d to %d", s.first, s.last)
	case s.first < 0 || s.last >= s.layout.Workers():
		return refuse("worker numbers from %d to %d, the layout has those from 0 to %d", s.first, s.last, s.layout.Workers()-1)
	case s.preferred != -1 && (s.preferred < s.first || s.preferred > s.last):
		return refuse("preferred worker number %d, want one from %d to %d", s.preferred, s.first, s.last)
	case s.window < shortestWindow || s.window > longestWindow:
		return refuse("a window of %v, want from %v to %v", s.window, shortestWindow, longestWindow)
	case s.window < 4*s.layout.Unit:
		return refuse("a window of %v with a unit of %v, want 4 units or more", s.window, s.layout.Unit)
	case s.maxSkew <= 0:
		return refuse("clocks that may differ by %v, want more than nothing", s.maxSkew)
	case len(s.owner) > 1024:
		return refuse("an owner of %d bytes, want up to 1024", len(s.owner))
	}
	return nil
}

// WithLayout sets the layout of the root's IDs, [DefaultLayout] unless set. It
// is stored at the root by the first claim; one with another layout is refused.
func WithLayout(l Layout) WorkerOption {
	return func(s *workerSettings) { s.layout = l }
}

// WithRange sets the numbers that may be claimed, first and last included; all
// that the layout has unless set, which are 0 to 1023 by default.
func WithRange(first, last int) WorkerOption {
	return func(s *workerSettings) { s.first, s.last, s.ranged = first, last, true }
}

// WithPreferred names a number that is claimed if it is free.
func WithPreferred(number int) WorkerOption {
	return func(s *workerSettings) {
		s.preferred = number
		if number < 0 {
			s.err = fmt.Errorf("%w: preferred worker number %d", framework.ErrInvalidOption, number)
		}
	}
}

// WithOwner sets what a slot tells people about its owner, instead of the
// host's name and the process ID as in "web-3:4711". It has no other meaning.
func WithOwner(owner string) WorkerOption {
	return func(s *workerSettings) { s.owner = owner }
}

// WithWindow sets how much time a claim, and each extension of it, reserves
// ahead; 10 s unless set, at least 100 ms and at most an hour. A generator goes
// on for between a half and the whole of it when there is no server. A longer
// one costs fewer writes; after a crash the number's next owner begins so much
// later, if all other numbers were used more recently.
func WithWindow(d time.Duration) WorkerOption {
	return func(s *workerSettings) { s.window = d }
}

// WithMaxSkew sets how far this process's clock may be off the servers', 10 s
// unless set. Beyond that nothing is reserved, see [ErrClockSkew].
func WithMaxSkew(d time.Duration) WorkerOption {
	return func(s *workerSettings) { s.maxSkew = d }
}

// WaitForNumber has Claim wait for as long as its context allows when no number
// is free, instead of failing with [ErrNoWorkerSlot]. It watches the claims, and
// asks for nothing until one of them ends; then all who wait look again.
func WaitForNumber() WorkerOption {
	return func(s *workerSettings) { s.wait = true }
}
