package recipes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonzk/baton/framework"
)

// An Explanation is what lies in a lock's path, for whoever wonders why the
// lock is not to be had. Its String is meant for a ticket.
type Explanation struct {
	// Path is the lock's path as the servers know it, below chroot and
	// namespace.
	Path string
	// Exists says that there is such a node. Without it the lock is free: the
	// first contender makes it.
	Exists bool
	// Session is the session of the client that asked, 0 if it has none. What
	// has it as its SessionID is the client's own; see Own.
	Session int64
	// Holders are those who wait for nobody, in the line's order.
	Holders []Participant
	// Waiting are the first of those who wait, in the line's order: at least
	// ten if there are so many.
	Waiting []Participant
	// Unread is how many contenders stand behind those, of whom nothing was read.
	Unread int
	// Dead are contenders whose nodes are not ephemeral. Nobody alive owns them,
	// and they are passed over.
	Dead []Participant
	// Failed are the paths of markers, as the servers know them, of holders that
	// failed: the lock is closed to those whom they exclude until its grace is
	// over, see [GraceAfterCrash], or the markers are deleted. None that the client
	// may not list.
	Failed []string
	// Foreign are the names of the children that take no part.
	Foreign []string
	// Limit is how many permits of a semaphore may be out, and Permits how many
	// are: by number the nodes of the living among those that were read, and all
	// others. Both are 0 for other locks.
	Limit, Permits int
	// Next is the number that the next contender gets, of a semaphore the larger
	// one of Counters. At 2147483647 the counter is at its end: see
	// [Explanation.Exhausted].
	Next int32
	// Counters are what Next is from, each with its path: a lock has one, a
	// semaphore one of its line and one of its permits. Those of paths that do not
	// exist are left out.
	Counters []Counter
}

// A Counter numbers those who have a node below one path.
type Counter struct {
	Path string // as the servers know it
	Next int32
}

const (
	explainBatch   = 50   // contenders read before it is looked at what they are
	explainWaiters = 10   // are enough
	explainReads   = 1000 // contenders read at most
)

// Explain returns who holds the lock and who waits, what else lies in its path,
// and what is wrong there. It changes nothing. That the path does not exist is
// no error; that the client may not list it is [framework.ErrNoAuth].
//
// It costs one list of the path, one of the markers beside it, and one read for each of the first contenders
// in line: of the holders, and of some who wait. Of a very long line it reads no
// more than a thousand; the rest is counted. As with Participants, what it
// returns is what the server that the client is connected to knows.
func (l *lock) Explain(ctx context.Context) (Explanation, error) {
	if l.err != nil {
		return Explanation{}, l.err
	}
	e, err := l.line.explain(ctx)
	if err != nil {
		return Explanation{}, fmt.Errorf("recipes: explain %s: %w", l.path, withContext(ctx, err))
	}
	return e, nil
}

func (l *line) explain(ctx context.Context) (Explanation, error) {
	e := Explanation{Path: l.client.ServerPath(l.path)}
	if s := l.client.Session(); s != nil {
		e.Session = s.ID()
	}
	if err := ctx.Err(); err != nil {
		return e, err
	}
	children, stat, err := l.client.Children(ctx, l.path)
	if says(ctx, err, framework.ErrNoNode) {
		e.Failed, err = l.failedHolders(ctx, nil)
		return e, err
	}
	if err != nil {
		return e, err
	}
	queue, foreign := l.rule.partition(children)
	slices.Sort(foreign)
	e.Exists, e.Foreign, e.Next = true, foreign, nextNumber(stat, queue)
	e.Counters = []Counter{{e.Path, e.Next}}
	slices.SortFunc(queue, compareFrom(e.Next))
	if err := l.readInto(ctx, &e, queue); err != nil {
		return e, err
	}
	e.Failed, err = l.failedHolders(ctx, queue)
	return e, err
}

// failedHolders returns the paths of the markers of those who were not in the
// line any more, which was listed before: who releases deletes the marker first.
func (l *line) failedHolders(ctx context.Context, queue []contender) (paths []string, err error) {
	if len(l.rule.closers) == 0 {
		return nil, nil
	}
	names, _, err := l.client.Children(ctx, l.markers())
	if err := unlessHidden(ctx, err); err != nil {
		return nil, err
	}
	for _, name := range names {
		_, ok := l.rule.parse(name)
		if ok && !slices.ContainsFunc(queue, func(c contender) bool { return c.name == name }) {
			paths = append(paths, l.client.ServerPath(framework.JoinPath(l.markers(), name)))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// readInto reads the first of queue, which is in order, for e.
func (l *line) readInto(ctx context.Context, e *Explanation, queue []contender) error {
	var found []*Participant
	for done := false; !done; {
		end := min(len(found)+explainBatch, len(queue))
		batch, err := l.read(ctx, queue[len(found):end])
		if err != nil {
			return err
		}
		found = append(found, batch...)
		e.sort(l.inOrder(queue[:end], found))
		// The names of an exhausted counter say nothing of the order.
		enough := len(e.Waiting) >= explainWaiters && !e.Exhausted()
		done = enough || end == len(queue) || end >= explainReads
	}
	e.Unread = len(queue) - len(found)
	return nil
}

// sort divides the participants, which are in order.
func (e *Explanation) sort(ps []Participant) {
	e.Holders, e.Waiting, e.Dead = nil, nil, nil
	for _, p := range ps {
		switch {
		case p.Dead:
			e.Dead = append(e.Dead, p)
		case p.Holder:
			e.Holders = append(e.Holders, p)
		default:
			e.Waiting = append(e.Waiting, p)
		}
	}
}

// nextNumber returns the number that the next child gets if it is sequential.
// The server shows it doubled, less the number of children, and so without its
// highest bit. That bit is such that the number is close behind those of the
// line.
func nextNumber(root framework.Stat, queue []contender) int32 {
	low := int32(uint32(root.ChildVersion+int32(root.NumChildren)) >> 1)
	next, least := low, uint32(math.MaxUint32)
	for _, n := range []int32{low, low | math.MinInt32} {
		for _, c := range queue {
			if d := uint32(n) - uint32(c.seq); d < least {
				next, least = n, d
			}
		}
	}
	return next
}

// Own returns those of the contenders read that are the asking client's own:
// its goroutines hold the lock, or wait for it.
func (e Explanation) Own() []Participant {
	var own []Participant
	for _, ps := range [][]Participant{e.Holders, e.Waiting} {
		for _, p := range ps {
			if e.isOwn(p) {
				own = append(own, p)
			}
		}
	}
	return own
}

func (e Explanation) isOwn(p Participant) bool { return e.Session != 0 && p.SessionID == e.Session }

// Exhausted reports whether the path's counter, or one of several, is at its end.
// It sticks there, since ZooKeeper 3.6: contenders still get the lock in their order, at the
// price of more reads, but other clients' locks may be given to two of them. The
// cure is to delete that counter's path when nobody uses it.
func (e Explanation) Exhausted() bool { return e.Next == math.MaxInt32 }

// numbersLeft is how many contenders before the end of the counter there is
// something to say: a day's, at a thousand a second.
const numbersLeft = 100_000_000

// String returns what is to be said in lines of text, the first of which is
// the summary.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s: %s\n", e.Path, e.summary())
	e.list(&b, "holder", e.Holders, "")
	e.list(&b, "waiting", e.Waiting, "")
	if e.Unread > 0 {
		fmt.Fprintf(&b, "waiting: %d more, not read\n", e.Unread)
	}
	e.list(&b, "dead", e.Dead, ", passed over: its node is not ephemeral, nobody alive owns it")
	for i, path := range e.Failed {
		if i == listed {
			fmt.Fprintf(&b, "closed: %d markers more\n", len(e.Failed)-i)
			break
		}
		fmt.Fprintf(&b, "closed: by %s, whose holder failed: wait for the grace, or delete it\n", path)
	}
	for i, name := range e.Foreign {
		if i == listed {
			fmt.Fprintf(&b, "foreign: %d more\n", len(e.Foreign)-i)
			break
		}
		fmt.Fprintf(&b, "foreign: %q, ignored: it takes no part in the lock\n", name)
	}
	for _, c := range e.Counters {
		b.WriteString(c.advice())
	}
	return b.String()
}

// advice is a line of text, "" if there is nothing to be said.
func (c Counter) advice() string {
	switch left := math.MaxInt32 - int64(c.Next); {
	case left == 0:
		return fmt.Sprintf("counter: at its end, %d: delete %s when nobody uses it\n", c.Next, c.Path)
	case left < numbersLeft:
		return fmt.Sprintf("counter: %d, %d before its end: delete %s when nobody uses it\n", c.Next, left, c.Path)
	}
	return ""
}

// listed is how many of a kind String lists.
const listed = 10

func (e Explanation) summary() string {
	switch waiting := len(e.Waiting) + e.Unread; {
	case !e.Exists && len(e.Failed) == 0:
		return "free, the path does not exist"
	case len(e.Holders) == 0 && waiting == 0 && len(e.Failed) > 0:
		return "nobody holds it, and it is closed after a failure"
	case len(e.Holders) == 0 && waiting == 0:
		return "free"
	case e.Limit > 0:
		return fmt.Sprintf("%d of %d permits are out, %d wait", e.Permits, e.Limit, waiting)
	default:
		return fmt.Sprintf("%d hold, %d wait", len(e.Holders), waiting)
	}
}

func (e Explanation) list(b *strings.Builder, what string, ps []Participant, remark string) {
	for i, p := range ps {
		if i == listed {
			fmt.Fprintf(b, "%s: %d more\n", what, len(ps)-i)
			return
		}
		fmt.Fprintf(b, "%s: %s %s", what, p.Name, quote(p.Data))
		if p.SessionID != 0 {
			fmt.Fprintf(b, ", session %#x", p.SessionID)
		}
		fmt.Fprintf(b, ", token %#x, since %s", p.Token, p.Since.UTC().Format(time.RFC3339))
		if e.isOwn(p) {
			b.WriteString(", this client")
		}
		b.WriteString(remark + "\n")
	}
}
