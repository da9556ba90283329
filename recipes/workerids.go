package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
)

// WorkerIDs gives each process a worker number that no other has at the same
// time, and reserves time for it: see [Snowflake], which makes IDs of both.
//
// Below the root lie slots, one persistent node for each number that was ever
// used; claims, with an ephemeral node for each that is in use; and floor. The
// root belongs to it alone. It has no state but what it knows of the servers'
// clock, and is safe for concurrent use; each Claim gets another number.
type WorkerIDs struct {
	client   *framework.Client
	root     generatorRoot
	settings workerSettings
	claims   *line // of the nodes that say which numbers are in use
	clock    workerClock
	err      error // why it cannot be used

	reports reporter

	mu    sync.Mutex
	alive map[string]struct{} // claims' nodes that are known to be ephemeral
}

// NewWorkerIDs returns the worker numbers of a root. It does no I/O; a
// malformed root or option is reported by the first call that would do some.
func NewWorkerIDs(client *framework.Client, root string, opts ...WorkerOption) *WorkerIDs {
	s := newWorkerSettings(opts)
	w := &WorkerIDs{
		root:     generatorRoot{client: client, path: root, t: workerRoot, owns: isWorkerNode},
		settings: s,
	}
	if err := errors.Join(s.err, validateRoot(client, root)); err != nil {
		w.err = fmt.Errorf("recipes: worker IDs %q: %w", root, err)
		return w
	}
	w.client = client
	w.clock = workerClock{wall: s.wall, maxSkew: s.maxSkew, began: time.Now()}
	w.claims = newLine(client, framework.JoinPath(root, claimsNode), claimRule, settings{data: []byte(s.owner)})
	w.claims.lock = root
	return w
}

// report logs a message about a node in the root, once.
func (w *WorkerIDs) report(path, message string) {
	if w.reports.isNew(path) {
		w.client.Logger().Warn(message, "root", w.root.path, "node", path)
	}
}

// claimRule is that of the nodes of numbers in use, none of which waits for
// another.
var claimRule = &rule{label: "worker-", blocks: func(_, _ contender) bool { return false }}

// Root returns the root as it was given.
func (w *WorkerIDs) Root() string { return w.root.path }

// Layout returns the layout of the root's IDs, as it was given.
func (w *WorkerIDs) Layout() Layout { return w.settings.layout }

// NoWorkerSlotError says why there is no number to be had. It wraps
// [ErrNoWorkerSlot].
type NoWorkerSlotError struct {
	Root  string
	Total int // numbers that may be claimed
	Live  int // of them in use
	// Unusable is how many of the others hold what is not understood, or have
	// time reserved that is far ahead of now. The log names them.
	Unusable int
	// Reason is what is wrong with one of these, nil if there are none.
	Reason error
}

// Error has the numbers.
func (e *NoWorkerSlotError) Error() string {
	text := fmt.Sprintf("%v: %d of %d are in use", ErrNoWorkerSlot, e.Live, e.Total)
	if e.Unusable > 0 {
		text += fmt.Sprintf(", %d cannot be used: %v", e.Unusable, e.Reason)
	}
	return text
}

// Unwrap returns ErrNoWorkerSlot and the reason.
func (e *NoWorkerSlotError) Unwrap() []error {
	if e.Reason == nil {
		return []error{ErrNoWorkerSlot}
	}
	return []error{ErrNoWorkerSlot, e.Reason}
}

// Claim takes a number that nobody has: the preferred one if it is free, or
// else one that never was used, or else the one least recently used of up to
// 16 that are free, so that a number rests before it comes back. It fails with
// [ErrNoWorkerSlot] if there is none, unless it is to wait; with [ErrOtherLayout]
// if the root's IDs have another layout; with [ErrClockSkew] if this process's
// clock is off the servers'; with [ErrLayoutExhausted] or [ErrClockBehind] if the
// time is after the layout's end or before its epoch; with [ErrWrongRoot] or
// [ErrCorrupt] if the root is for something else, or holds what is not
// understood.
//
// It blocks until a server has answered, outages included, or ctx is done. ctx
// bounds the call, not what comes of it. However it fails, it leaves no number in
// use, or none for longer than the session lives.
//
// A claim is a bounded number of requests, however many claim at once: 8, the
// reads for token and watch included; for the first of a WorkerIDs value one
// more, and two for each node of the root's path, to see that it is apart from
// others; as many again and up to 7 for what the first of all has to make, more
// in a deeper path; up to 17 more if no number is left that never was used; one if
// the preferred number is in use; if all seem to be, one for each claim that was
// not asked for before, to see whether somebody alive owns it; and one more for
// each time that another was faster. Those who claim at once choose at
// random, so that they seldom meet while there is a choice.
func (w *WorkerIDs) Claim(ctx context.Context) (*WorkerID, error) {
	if w.err != nil {
		return nil, w.err
	}
	id, err := w.claim(ctx)
	if err != nil {
		return nil, fmt.Errorf("recipes: claim a worker number of %s: %w", w.root.path, bare{err})
	}
	return id, nil
}

func (w *WorkerIDs) claim(ctx context.Context) (*WorkerID, error) {
	var pauses pauses
	for lost := 0; ; {
		if ctx.Err() != nil {
			return nil, waited(ctx, w.client)
		}
		id, err := w.attempt(ctx)
		if err == nil {
			return id, nil
		}
		if ctx.Err() != nil { // maybe only since err was made
			return nil, withContext(ctx, err)
		}
		again := errors.Is(err, errAgain)
		if !again && !isOutage(err) {
			return nil, err
		}
		w.client.Logger().Info("claiming a worker number again", "root", w.root.path, "err", err)
		if again {
			lost++
		}
		if !again || lost > 1 {
			pauses.pause(ctx)
		}
	}
}

// attempt is one round of claim. The error is errAgain if others were faster, or
// the session was lost.
func (w *WorkerIDs) attempt(ctx context.Context) (*WorkerID, error) {
	if err := w.begun(w.clock.wall()); err != nil {
		return nil, err // before the layout is written to the root
	}
	if err := w.enterRoot(ctx); err != nil {
		return nil, err
	}
	session := w.client.Session()
	if session == nil {
		return nil, fmt.Errorf("%w: %w", errAgain, framework.ErrSessionLost)
	}
	for watching := false; ; watching = w.settings.wait {
		if err := w.consult(ctx); err != nil {
			return nil, err
		}
		id, err := w.round(ctx, session, watching)
		if id != nil || err != nil {
			return id, err
		}
	}
}

// round looks for a free number once and claims it. If there is none it waits
// until that may have changed, and returns nothing, or fails if it is not to
// wait.
func (w *WorkerIDs) round(ctx context.Context, session *framework.Session, watching bool) (*WorkerID, error) {
	var s survey
	defer s.stop()
	if err := w.look(ctx, watching, &s); err != nil {
		return nil, err
	}
	id, err := w.take(ctx, session, &s)
	if says(ctx, err, ErrNoWorkerSlot) {
		found, looked := w.passOver(ctx, &s, slices.Concat(slices.Collect(maps.Values(s.taken))...))
		if looked != nil {
			return nil, looked
		}
		if found {
			id, err = w.take(ctx, session, &s)
		}
	}
	if live := s.live() + 1; id != nil && live*5 >= s.total()*4 && s.total() >= 10 {
		w.client.Logger().Warn("worker numbers are running short", "root", w.root.path, "in use", live, "of", s.total())
	}
	switch {
	case id != nil, !says(ctx, err, ErrNoWorkerSlot):
		return id, err
	case !w.settings.wait || s.live() == 0:
		return nil, err
	case !watching:
		return nil, nil
	}
	w.client.Logger().Info("waiting for a worker number", "root", w.root.path, "in use", s.live(), "of", s.total())
	select {
	case <-eventOf(s.moved):
		return nil, nil
	case <-session.Context().Done():
		return nil, fmt.Errorf("%w: %w", errAgain, session.Err())
	case <-ctx.Done():
		return nil, withContext(ctx, err)
	}
}
