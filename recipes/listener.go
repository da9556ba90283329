package recipes

import (
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// A WaitEvent is what a [Wait] tells of.
type WaitEvent int

// What happens to one who waits in line, in this order: joined, moved any
// number of times, granted or lost; and after lost, joined or granted again.
const (
	// WaitJoined: it stands in line and has to wait: somebody is ahead, or a
	// semaphore has too few permits left, or the lock stays closed after a crash.
	WaitJoined WaitEvent = iota + 1
	// WaitMoved: others have left, and it waits behind another, or with fewer
	// ahead.
	WaitMoved
	// WaitGranted: its turn has come. Acquire returns the lease next, unless
	// its context or the session ends in this moment.
	WaitGranted
	// WaitLost: its node is gone, with its session or by somebody's hand. It
	// joins again at the end of the line if Acquire's context allows.
	WaitLost
)

// String returns the event's name.
func (e WaitEvent) String() string {
	switch e {
	case WaitJoined:
		return "joined"
	case WaitMoved:
		return "moved"
	case WaitGranted:
		return "granted"
	case WaitLost:
		return "lost"
	}
	return fmt.Sprintf("WaitEvent(%d)", int(e))
}

// A Wait is one moment of an Acquire that waits; see [WithWaitListener].
type Wait struct {
	Event WaitEvent
	Lock  string // the lock's path
	Path  string // of the node that waits
	// Ahead is how many must leave before its turn can come, as far as it
	// knows. It is 0 for one who is first and waits for a semaphore's permits.
	Ahead int
	// Behind is the one that it watches and waits for, the last of those ahead.
	// It is empty when nobody is ahead and when the place was lost.
	Behind Participant
	// Waited is the time since Acquire was called, by this process's clock.
	Waited time.Duration
	// Err says how the place was lost, else it is nil.
	Err error
}

// WithWaitListener sets a function that hears how an Acquire gets on in the
// line: that it joined, that it moved, that its turn has come, that it lost its
// place. An Acquire that need not wait tells only that it was granted; one that
// re-enters, and a TryAcquire, tell nothing.
//
// It tells what the contender learns anyway, and costs no request. A contender
// watches only the one that it stands behind, and so does not hear of others
// that leave further ahead: Ahead is the number at the time of the last look.
//
// f is called on the goroutine that called Acquire, without a lock held. While
// it runs, that Acquire does not go on: neither a grant nor the end of its
// context is noticed. A panic in f is Acquire's, which leaves no node behind.
func WithWaitListener(f func(Wait)) Option {
	return func(s *settings) {
		if f == nil {
			s.err = fmt.Errorf("%w: wait listener is nil", framework.ErrInvalidOption)
		}
		s.waiting = f
	}
}

// tell tells the listener, if there is one, of an event, unless nothing has
// changed since the last. One who joined before has moved.
func (p *place) tell(event WaitEvent, err error) {
	f := p.line.settings.waiting
	if f == nil || p.try {
		return
	}
	w := Wait{Event: event, Lock: p.line.lock, Path: p.path, Waited: time.Since(p.asked), Err: err}
	if event == WaitJoined {
		w.Ahead, w.Behind = p.ahead, p.behind
		if p.told.Event != 0 {
			w.Event = WaitMoved
		}
	}
	again := w.Event == p.told.Event && w.Event != WaitLost || w.Event == WaitMoved && p.told.Event == WaitJoined
	if again && w.Ahead == p.told.Ahead && w.Behind.Path == p.told.Behind.Path {
		return
	}
	p.told = w
	f(w)
}
