package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
)

// A WorkerExplanation is what lies in a root of worker numbers, for whoever
// wonders who has a number, or why none is to be had. Its String is meant for a
// ticket.
type WorkerExplanation struct {
	// Path is the root's path as the servers know it, below chroot and namespace.
	Path string
	// Exists says that there is such a node. Without it all numbers are free: the
	// first claim makes it.
	Exists bool
	// Problem is why nobody can claim a number, an [ErrWrongRoot], nil if there is
	// no such reason. Those who have claimed one are not concerned.
	Problem error
	// Layout is that of the root's IDs, the zero value if none is written there
	// yet.
	Layout Layout
	// Session is the session of the client that asked, 0 if it has none.
	Session int64
	// First and Last are the numbers that the one who asked may claim; see
	// [WithRange].
	First, Last int
	// Slots are the numbers that are in use or ever were, in their order: at most
	// a thousand, those first that are in use. Others may have them in their range.
	Slots []WorkerSlot
	// Unread is how many numbers there are besides, none of them in use unless
	// the thousand are.
	Unread int
	// Foreign are the paths, from the root on, of nodes that take no part.
	Foreign []string
}

// A WorkerSlot is what is known of one worker number.
type WorkerSlot struct {
	Number int
	// Claims are the nodes that say that the number is in use: one, or none if it
	// is free. Those that are Dead do not count.
	Claims []Participant
	// Owner is whose the number is, or was last, and Generation how often it was
	// claimed. Both are unknown, as is ReservedUntil, if there is a Problem with
	// what the slot holds, or if there is no slot.
	Owner      string
	Generation int64
	// ReservedUntil is up to when IDs may have been made of the number; the next
	// claim begins there.
	ReservedUntil time.Time
	// Problem is what is wrong with it, nil if nothing is. While it lasts, who has
	// the number cannot reserve more time for it, and nobody else gets it.
	Problem error
}

// InUse reports whether the number is claimed by somebody alive.
func (s WorkerSlot) InUse() bool {
	return slices.ContainsFunc(s.Claims, func(p Participant) bool { return !p.Dead })
}

// Explain returns who has which number, what else lies in the root, and what is
// wrong there. It changes nothing. That the root does not exist is no error, nor
// that its IDs have another layout; that it is another recipe's is
// [ErrWrongRoot].
//
// It blocks until a server has answered, as the client's retry policy says. It
// costs four reads, those of a first claim that see whether the root is apart
// from others, and two for each number that is in use or ever was, up to a
// thousand. What it returns is what the server that the client is connected to
// knows.
func (w *WorkerIDs) Explain(ctx context.Context) (WorkerExplanation, error) {
	if w.err != nil {
		return WorkerExplanation{}, w.err
	}
	e, err := w.explain(ctx)
	if err != nil {
		return WorkerExplanation{}, fmt.Errorf("recipes: explain the worker numbers of %s: %w", w.root.path, withContext(ctx, err))
	}
	return e, nil
}

func (w *WorkerIDs) explain(ctx context.Context) (WorkerExplanation, error) {
	e := WorkerExplanation{Path: w.client.ServerPath(w.root.path), First: w.settings.first, Last: w.settings.last}
	if s := w.client.Session(); s != nil {
		e.Session = s.ID()
	}
	if err := ctx.Err(); err != nil {
		return e, err
	}
	data, stat, err := w.client.Get(ctx, w.root.path)
	if says(ctx, err, framework.ErrNoNode) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Exists = true
	if !isBlank(data, stat) {
		state, err := w.root.parse(data, stat)
		if err != nil {
			return e, err
		}
		if e.Layout, err = w.decodeLayout(state); err != nil {
			return e, err
		}
	}
	switch _, err := w.root.apart(ctx); {
	case says(ctx, err, ErrWrongRoot):
		e.Problem = err
	case err != nil:
		return e, err
	}
	if err := w.strangersInto(ctx, &e); err != nil {
		return e, err
	}
	claims, err := w.numbersInto(ctx, &e, claimsNode, parseClaim)
	if err != nil {
		return e, err
	}
	slots, err := w.numbersInto(ctx, &e, slotsNode, parseWorker)
	if err != nil {
		return e, err
	}
	return e, w.readInto(ctx, &e, claims, slots)
}

// strangersInto lists the root.
func (w *WorkerIDs) strangersInto(ctx context.Context, e *WorkerExplanation) error {
	names, _, err := w.client.Children(ctx, w.root.path)
	if err != nil && !says(ctx, err, framework.ErrNoNode) {
		return err
	}
	e.Foreign = slices.DeleteFunc(names, isWorkerNode)
	slices.Sort(e.Foreign)
	return nil
}

// numbersInto lists a child of the root, and returns its children by the numbers
// that their names have.
func (w *WorkerIDs) numbersInto(ctx context.Context, e *WorkerExplanation, child string, parse func(string) (int, bool)) (map[int][]string, error) {
	names, _, err := w.client.Children(ctx, framework.JoinPath(w.root.path, child))
	if err != nil && !says(ctx, err, framework.ErrNoNode) {
		return nil, err
	}
	slices.Sort(names)
	numbers := make(map[int][]string)
	for _, name := range names {
		if n, ok := parse(name); ok {
			numbers[n] = append(numbers[n], name)
		} else {
			e.Foreign = append(e.Foreign, child+"/"+name)
		}
	}
	return numbers, nil
}

// readInto reads the numbers for e, those in use first.
func (w *WorkerIDs) readInto(ctx context.Context, e *WorkerExplanation, claims, slots map[int][]string) error {
	numbers := slices.Sorted(maps.Keys(claims))
	for _, n := range slices.Sorted(maps.Keys(slots)) {
		if _, inUse := claims[n]; !inUse {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) > explainReads {
		e.Unread = len(numbers) - explainReads
		numbers = numbers[:explainReads]
	}
	found := make([]*WorkerSlot, len(numbers))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, n := range numbers {
		reads.Go(func() (err error) {
			found[i], err = w.explainSlot(ctx, n, claims[n])
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	for _, s := range found {
		if s != nil {
			e.Slots = append(e.Slots, *s)
		}
	}
	slices.SortFunc(e.Slots, func(a, b WorkerSlot) int { return cmp.Compare(a.Number, b.Number) })
	return nil
}

// explainSlot reads a number's claims and its slot; nil if there is none of
// either any more.
func (w *WorkerIDs) explainSlot(ctx context.Context, number int, claims []string) (*WorkerSlot, error) {
	view, problem, err := w.readSlot(ctx, number)
	if err != nil {
		return nil, err
	}
	s := &WorkerSlot{Number: number, Problem: problem}
	if problem == nil && view.version != noSlot {
		s.Owner, s.Generation, s.ReservedUntil = view.owner, view.generation, time.UnixMilli(view.high).UTC()
	}
	for _, name := range claims {
		p, err := w.claims.participant(ctx, contender{name: name})
		if says(ctx, err, framework.ErrNoNode) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		p.Holder = !p.Dead
		s.Claims = append(s.Claims, *p)
	}
	switch hasSlot := problem != nil || view.version != noSlot; {
	case !hasSlot && len(s.Claims) == 0:
		return nil, nil
	case !hasSlot && s.InUse():
		s.Problem = errors.Join(s.Problem, fmt.Errorf("%s is missing", w.client.ServerPath(w.slotPath(number))))
	}
	return s, nil
}

// String returns what is to be said in lines of text, the first of which is
// the summary.
func (e WorkerExplanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker numbers %s: %s\n", e.Path, e.summary())
	if e.Layout != (Layout{}) {
		fmt.Fprintf(&b, "layout: %v\n", e.Layout)
	}
	if e.Problem != nil {
		fmt.Fprintf(&b, "problem: no number can be claimed: %s\n", bare{e.Problem})
	}
	e.list(&b, "problem", func(s WorkerSlot) string {
		if s.Problem == nil {
			return ""
		}
		return fmt.Sprintf("number %d: %s", s.Number, strings.ReplaceAll(bare{s.Problem}.Error(), "\n", "; "))
	})
	e.list(&b, "in use", func(s WorkerSlot) string {
		if !s.InUse() {
			return ""
		}
		return e.describe(s)
	})
	e.list(&b, "dead", func(s WorkerSlot) string {
		var dead []string
		for _, p := range s.Claims {
			if p.Dead {
				dead = append(dead, p.Name)
			}
		}
		if len(dead) == 0 {
			return ""
		}
		return fmt.Sprintf("number %d: %s, passed over: not ephemeral, nobody alive owns it", s.Number, strings.Join(dead, ", "))
	})
	for i, path := range e.Foreign {
		if i == listed {
			fmt.Fprintf(&b, "foreign: %d more\n", len(e.Foreign)-i)
			break
		}
		fmt.Fprintf(&b, "foreign: %q, ignored: it takes no part in the numbers\n", path)
	}
	return b.String()
}

func (e WorkerExplanation) summary() string {
	if !e.Exists {
		return "all are free, the path does not exist"
	}
	var inUse, unusable int
	for _, s := range e.Slots {
		switch {
		case s.Number < e.First || s.Number > e.Last:
		case s.InUse():
			inUse++
		case s.Problem != nil:
			unusable++
		}
	}
	total := e.Last - e.First + 1
	text := fmt.Sprintf("of %d to %d, %d are in use, %d free", e.First, e.Last, inUse, total-inUse-unusable)
	if unusable > 0 {
		text += fmt.Sprintf(", %d cannot be used", unusable)
	}
	if e.Unread > 0 {
		text += fmt.Sprintf("; %d were not read", e.Unread)
	}
	return text
}

// list writes a line for each of the first slots of which there is something to
// be said.
func (e WorkerExplanation) list(b *strings.Builder, what string, say func(WorkerSlot) string) {
	var n int
	for _, s := range e.Slots {
		text := say(s)
		if text == "" {
			continue
		}
		if n++; n <= listed {
			fmt.Fprintf(b, "%s: %s\n", what, text)
		}
	}
	if n > listed {
		fmt.Fprintf(b, "%s: %d more\n", what, n-listed)
	}
}

// describe returns who has a number.
func (e WorkerExplanation) describe(s WorkerSlot) string {
	text := fmt.Sprintf("number %d", s.Number)
	for _, p := range s.Claims {
		if p.Dead {
			continue
		}
		text += fmt.Sprintf(", by %s", quote(p.Data))
		if p.SessionID != 0 {
			text += fmt.Sprintf(", session %#x", p.SessionID)
		}
		text += ", since " + p.Since.UTC().Format(time.RFC3339)
		if e.Session != 0 && p.SessionID == e.Session {
			text += ", this client"
		}
	}
	if s.Generation > 0 {
		text += fmt.Sprintf(", claim %d of it, reserved up to %s", s.Generation, clockText(s.ReservedUntil))
	}
	return text
}
