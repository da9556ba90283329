package recipes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
)

const (
	// sampleSize is how many slots are read to find one that was used long ago.
	sampleSize = 16
	// guesses is how many numbers that never were used are tried before the
	// root is looked at again.
	guesses = 8
	// farAhead is how far ahead of now a slot's time may be reserved, beyond a
	// window, for it to be of use.
	farAhead = time.Hour
)

// A survey is what a claimant has seen of a root.
type survey struct {
	used  map[int]struct{}    // numbers with a slot
	taken map[int][]string    // numbers in use, and the claims' nodes as far as they were seen
	dead  map[string]struct{} // claims' nodes that were found to be nobody's
	moved *framework.Watch    // on the claims
	first int
	last  int

	unusable map[int]struct{}
	reason   error
}

func (s *survey) stop() { stop(s.moved) }

func (s *survey) live() int { return len(s.taken) }

func (s *survey) total() int { return s.last - s.first + 1 }

// look lists slots and claims.
func (w *WorkerIDs) look(ctx context.Context, watching bool, s *survey) error {
	s.first, s.last = w.settings.first, w.settings.last
	s.unusable, s.dead = make(map[int]struct{}), make(map[string]struct{})
	names, _, err := w.client.Children(ctx, w.slotsPath())
	if err != nil && !says(ctx, err, framework.ErrNoNode) {
		return err
	}
	s.used = make(map[int]struct{})
	for _, name := range names {
		if n, ok := parseWorker(name); !ok {
			w.report(framework.JoinPath(w.slotsPath(), name), ignoringForeign)
		} else if n >= s.first && n <= s.last {
			s.used[n] = struct{}{}
		}
	}
	s.taken, s.moved, err = w.listClaims(ctx, watching, s.dead)
	if n := w.settings.preferred; err == nil && n >= 0 {
		_, err = w.passOver(ctx, s, s.taken[n])
	}
	return err
}

// listClaims returns the numbers in use, with the nodes that say so. The dead do
// not count.
func (w *WorkerIDs) listClaims(ctx context.Context, watching bool, dead map[string]struct{}) (map[int][]string, *framework.Watch, error) {
	names, moved, err := w.claims.children(ctx, watching)
	if err != nil {
		return nil, nil, err
	}
	taken := make(map[int][]string)
	for _, name := range names {
		n, ok := parseClaim(name)
		_, dead := dead[name]
		switch {
		case !ok:
			w.report(framework.JoinPath(w.claims.path, name), ignoringForeign)
		case !dead && n >= w.settings.first && n <= w.settings.last:
			taken[n] = append(taken[n], name)
		}
	}
	return taken, moved, nil
}

// passOver has those of the claims' nodes not count that are not ephemeral: made
// by hand, or by a copy of the tree, they would keep their numbers for ever. It
// reports whether there were any. Which ones are ephemeral is asked once.
func (w *WorkerIDs) passOver(ctx context.Context, s *survey, names []string) (found bool, err error) {
	var unknown []contender
	for _, name := range names {
		if !w.isAlive(name) {
			unknown = append(unknown, contender{name: name})
		}
	}
	stats, err := w.claims.stats(ctx, unknown)
	if err != nil {
		return false, err
	}
	for name, stat := range stats {
		if stat.EphemeralOwner == 0 {
			s.dead[name] = struct{}{}
			w.report(framework.JoinPath(w.claims.path, name), "passing over a worker number's claim that is not ephemeral")
		}
	}
	w.keepAlive(s, stats)
	for n, names := range s.taken {
		s.taken[n] = slices.DeleteFunc(names, func(name string) bool { _, dead := s.dead[name]; return dead })
		if len(names) > 0 && len(s.taken[n]) == 0 {
			delete(s.taken, n)
		}
	}
	return len(s.dead) > 0, nil
}

func (w *WorkerIDs) isAlive(claim string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, alive := w.alive[claim]
	return alive
}

// keepAlive notes which claims are ephemeral, and forgets those that have gone.
func (w *WorkerIDs) keepAlive(s *survey, stats map[string]framework.Stat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive := make(map[string]struct{})
	for _, names := range s.taken {
		for _, name := range names {
			_, known := w.alive[name]
			if known || stats[name].EphemeralOwner != 0 {
				alive[name] = struct{}{}
			}
		}
	}
	w.alive = alive
}

const ignoringForeign = "ignoring a child that takes no part in the worker numbers"

// parseWorker reads a slot's name, a number as it is written.
func parseWorker(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == name
}

// parseClaim reads the name of a claim's node: a mark, and the number.
func parseClaim(name string) (int, bool) {
	prefix, number, ok := strings.Cut(name, claimRule.label)
	if !ok || prefix != "" && !isProtection(prefix) {
		return 0, false
	}
	return parseWorker(number)
}

// A candidate is a number that may be claimed, with its slot as it was read.
type candidate struct {
	number int
	view   slotView
}

// take claims one of the free numbers.
func (w *WorkerIDs) take(ctx context.Context, session *framework.Session, s *survey) (*WorkerID, error) {
	candidates, err := w.read(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		if id, err := w.reserve(ctx, session, c); id != nil || err != nil {
			return id, err
		}
		s.lost(c.number)
	}
	fresh := s.total() - s.live() - len(s.freeUsed())
	for range min(fresh, guesses) {
		n := s.neverUsed()
		if n < 0 {
			break
		}
		if id, err := w.reserve(ctx, session, candidate{n, noSlotView}); id != nil || err != nil {
			return id, err
		}
		s.lost(n)
	}
	if fresh > 0 || len(candidates) > 0 || len(s.unusable) < len(s.freeUsed()) {
		return nil, fmt.Errorf("%w: others were faster", errAgain)
	}
	return nil, &NoWorkerSlotError{
		Root: w.root.path, Total: s.total(), Live: s.live(), Unusable: len(s.unusable), Reason: s.reason,
	}
}

// lost notes that another was faster.
func (s *survey) lost(number int) { s.used[number], s.taken[number] = struct{}{}, nil }

// freeUsed returns the numbers that have a slot and are not in use.
func (s *survey) freeUsed() []int {
	var free []int
	for n := range s.used {
		if _, taken := s.taken[n]; !taken {
			free = append(free, n)
		}
	}
	return free
}

// neverUsed returns a number at random of those that have no slot, -1 if there
// is none.
func (s *survey) neverUsed() int {
	known := make([]int, 0, len(s.used)+len(s.taken))
	for n := range s.used {
		known = append(known, n)
	}
	for n := range s.taken {
		if _, both := s.used[n]; !both {
			known = append(known, n)
		}
	}
	rest := s.total() - len(known)
	if rest == 0 {
		return -1
	}
	slices.Sort(known)
	n := s.first + mathrand.IntN(rest)
	for _, k := range known {
		if k <= n {
			n++
		}
	}
	return n
}

// read reads the slots that are to be considered before those that never were
// used: the preferred one; and if there is no other, a sample of the free. It
// goes on to the next sample only if there is nothing of use in one.
func (w *WorkerIDs) read(ctx context.Context, s *survey) ([]candidate, error) {
	n := w.settings.preferred
	_, used := s.used[n]
	_, taken := s.taken[n]
	switch {
	case n >= 0 && !used && !taken:
		return []candidate{{n, noSlotView}}, nil
	case n >= 0 && !taken:
		if preferred, err := w.readFree(ctx, []int{n}, s); len(preferred) > 0 || err != nil {
			return preferred, err
		}
	}
	free := s.freeUsed()
	if len(free)+s.live() < s.total() {
		return nil, nil
	}
	mathrand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for sample := range slices.Chunk(free, sampleSize) {
		if candidates, err := w.readFree(ctx, sample, s); len(candidates) > 0 || err != nil {
			return candidates, err
		}
	}
	return nil, nil
}

// readFree reads slots, and returns those that are free, the one first that was
// not used for longest. They were free when, or after, they were read, for the
// claims are listed again: so whoever has claimed one since has changed its slot.
func (w *WorkerIDs) readFree(ctx context.Context, numbers []int, s *survey) ([]candidate, error) {
	views, err := w.readSlots(ctx, numbers, s)
	if err != nil {
		return nil, err
	}
	taken, _, err := w.listClaims(ctx, false, s.dead)
	if err != nil {
		return nil, err
	}
	var candidates []candidate
	for i, v := range views {
		if _, taken := taken[numbers[i]]; v != nil && !taken {
			candidates = append(candidates, candidate{numbers[i], *v})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.view.high, b.view.high) })
	return candidates, nil
}

// readSlots reads slots; one that cannot be used is nil.
func (w *WorkerIDs) readSlots(ctx context.Context, numbers []int, s *survey) ([]*slotView, error) {
	views := make([]*slotView, len(numbers))
	problems := make([]error, len(numbers))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, n := range numbers {
		reads.Go(func() (err error) {
			views[i], problems[i], err = w.readSlot(ctx, n)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for i, problem := range problems {
		if problem == nil {
			continue
		}
		s.unusable[numbers[i]], s.reason = struct{}{}, problem
		w.report(w.slotPath(numbers[i]), "a worker's slot cannot be used: "+problem.Error())
	}
	return views, nil
}

// readSlot reads a slot, or says what is wrong with it.
func (w *WorkerIDs) readSlot(ctx context.Context, number int) (view *slotView, problem, err error) {
	path := w.slotPath(number)
	data, stat, err := w.client.Get(ctx, path)
	if says(ctx, err, framework.ErrNoNode) {
		none := noSlotView
		return &none, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := decodeSlot(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, w.client.ServerPath(path), err), nil
	}
	if ahead := time.UnixMilli(s.high).Sub(w.clock.wall()); ahead > farAhead+w.settings.window {
		return nil, fmt.Errorf("%s: time is reserved up to %s", w.client.ServerPath(path), clockText(time.UnixMilli(s.high))), nil
	}
	return &slotView{slot: s, version: stat.Version}, nil, nil
}

func (w *WorkerIDs) slotsPath() string { return framework.JoinPath(w.root.path, slotsNode) }

func (w *WorkerIDs) slotPath(number int) string {
	return framework.JoinPath(w.slotsPath(), strconv.Itoa(number))
}

// reserve claims a number, by one multi that makes the node that says that it is
// in use, and reserves time in its slot. As all or none of that is executed,
// whoever changed the slot since it was read keeps both from being done. It
// returns nothing if somebody did.
func (w *WorkerIDs) reserve(ctx context.Context, session *framework.Session, c candidate) (*WorkerID, error) {
	now := w.clock.wall()
	r := c.view.claim(now.UnixMilli(), w.settings.window.Milliseconds(), w.settings.owner, rand.Text())
	if err := w.withinLayout(&r, now); err != nil {
		return nil, err
	}
	path, data := w.slotPath(c.number), r.slot.encode()
	write := framework.SetOp(path, data, r.over)
	if r.over == noSlot {
		write = framework.CreateOp(path, data, framework.Persistent).WithParents()
	}
	mark := framework.CreateOp(framework.JoinPath(w.claims.path, claimRule.label+strconv.Itoa(c.number)), []byte(w.settings.owner),
		framework.Ephemeral).Protected().WithParents().In(session)
	results, err := w.client.Multi(ctx, write, mark)
	switch {
	case says(ctx, err, framework.ErrNodeExists), says(ctx, err, framework.ErrBadVersion), says(ctx, err, framework.ErrNoNode):
		return nil, nil
	case session.Err() != nil:
		return nil, fmt.Errorf("%w: %w", errAgain, session.Err())
	case err != nil:
		return nil, err
	}
	return w.begin(ctx, session, c.number, results[1].Path, r)
}

// withinLayout caps what r reserves at the layout's end.
func (w *WorkerIDs) withinLayout(r *reservation, now time.Time) error {
	if err := w.begun(now); err != nil {
		return err
	}
	l := w.settings.layout
	switch end := l.EndOfLife(); {
	case !now.Before(end) || r.from >= end.UnixMilli():
		return fmt.Errorf("%w: %v ended %s", ErrLayoutExhausted, l, clockText(end))
	case r.slot.high > end.UnixMilli():
		r.slot.high = end.UnixMilli()
	}
	return nil
}

// begun refuses a time that the layout has no number for yet.
func (w *WorkerIDs) begun(now time.Time) error {
	if l := w.settings.layout; now.Before(l.Epoch) {
		return fmt.Errorf("%w: %s is before the epoch of %v", ErrClockBehind, clockText(now), l)
	}
	return nil
}

// begin makes the hold of a number that was claimed.
func (w *WorkerIDs) begin(ctx context.Context, session *framework.Session, number int, path string, r reservation) (id *WorkerID, err error) {
	defer func() { // also if a hook or a log handler panics
		if id == nil && path != "" {
			_ = w.claims.dismiss(ctx, session, path)
		}
	}()
	if path == "" {
		return nil, fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	}
	stat, err := w.client.Exists(ctx, path) // the multi does not tell
	switch {
	case says(ctx, err, framework.ErrNoNode):
		return nil, fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	case err != nil:
		return nil, err
	}
	h := newHold(w.claims, node{path: path, token: stat.Czxid, session: session})
	if err = ctx.Err(); err == nil {
		err = h.look() // last of all: what was claimed in time may be late now
	}
	if err == nil && !w.client.Go(func() { h.guard(nil) }) {
		err = ErrClosed
	}
	if err != nil {
		_ = h.end(err)
		h.unwatch()
		if lost := session.Err(); lost != nil && !errors.Is(lost, ErrClosed) {
			err = fmt.Errorf("%w: %w", errAgain, lost)
		}
		return nil, err
	}
	return &WorkerID{Lease: h.first, workers: w, number: number, reserved: r}, nil
}
