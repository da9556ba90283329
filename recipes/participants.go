package recipes

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
)

// A Participant is one who stands in a lock's line.
type Participant struct {
	Name      string // of its node
	Path      string // of its node, as the lock's client knows it
	Data      []byte // what it says of itself, see [WithData]; __REVOKE__ after a plain [Revoke]; nil if the client may not read it
	SessionID int64  // of the session that its node dies with, 0 if none
	// Token is the fencing token that it has or would have. For a reader that was
	// a writer it is larger than its lease's, which is the writer's.
	Token int64
	// Since is when it joined the line, by the servers' clock.
	Since time.Time
	// Holder says that it has nobody to wait for. It may still wait out a grace,
	// see [GraceAfterCrash].
	Holder bool
	// Dead says that its node is not ephemeral: nobody alive owns it, and it
	// is passed over.
	Dead bool
	// Revocation is the request to give the lock up that its node holds, nil if
	// it holds none. The deadline is by the servers' clock.
	Revocation *Revocation
}

// readsAtOnce is how many participants are read at a time.
const readsAtOnce = 16

func (l *line) participants(ctx context.Context) ([]Participant, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	children, _, err := l.children(ctx, false)
	if err != nil {
		return nil, err
	}
	queue, _ := l.rule.partition(children)
	found, err := l.read(ctx, queue)
	if err != nil {
		return nil, err
	}
	return l.inOrder(queue, found), nil
}

// read reads contenders. Those that have left are nil in the result.
func (l *line) read(ctx context.Context, queue []contender) ([]*Participant, error) {
	found := make([]*Participant, len(queue))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, c := range queue {
		reads.Go(func() error {
			p, err := l.participant(ctx, c)
			if says(ctx, err, framework.ErrNoNode) {
				return nil // it has left
			}
			found[i] = p
			return err
		})
	}
	return found, reads.Wait()
}

// participant reads one contender; of one that the client may not read, what
// no ACL hides.
func (l *line) participant(ctx context.Context, c contender) (*Participant, error) {
	path := framework.JoinPath(l.path, c.name)
	data, stat, err := l.client.Get(ctx, path)
	if says(ctx, err, framework.ErrNoAuth) {
		stat, err = l.client.Exists(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	p := l.newParticipant(c, data, stat)
	return &p, nil
}

func (l *line) newParticipant(c contender, data []byte, stat framework.Stat) Participant {
	p := Participant{
		Name:      c.name,
		Path:      framework.JoinPath(l.path, c.name),
		Data:      said(data),
		SessionID: stat.EphemeralOwner,
		Token:     stat.Czxid,
		Since:     stat.Created,
		Dead:      stat.EphemeralOwner == 0,
	}
	if r, ok := parseRequest(data); ok {
		heard := r.heard(stat.Modified)
		p.Revocation = &heard
	}
	return p
}

// inOrder sorts those of queue that were found, as the newest living one of
// them sees them, and marks who holds what the line is for.
func (l *line) inOrder(queue []contender, found []*Participant) []Participant {
	byName := make(map[string]*Participant, len(found))
	var all []contender
	var newest *Participant
	var pivot int32
	for i, p := range found {
		if p == nil {
			continue
		}
		byName[p.Name] = p
		c := queue[i]
		c.czxid = p.Token
		all = append(all, c)
		if newest == nil || newest.Dead && !p.Dead || newest.Dead == p.Dead && p.Token > newest.Token {
			newest, pivot = p, queue[i].seq
		}
	}
	slices.SortFunc(all, compareFrom(pivot))
	out := make([]Participant, 0, len(all))
	var living []contender
	for _, c := range all {
		p := byName[c.name]
		if !p.Dead {
			living = append(living, c)
			p.Holder = !l.rule.passes && l.rule.blocker(living, len(living)-1) < 0
		}
		out = append(out, *p)
	}
	return out
}
