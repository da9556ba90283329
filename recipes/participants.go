package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
)

// A Participant is one who stands in a lock's line.
type Participant struct {
	Name      string // of its node
	Path      string // of its node, as the lock's client knows it
	Data      []byte // what it says of itself, see [WithData]; __REVOKE__ after [Revoke]
	SessionID int64  // of the session that its node dies with, 0 if none
	Token     int64  // the fencing token that it has or would have
	// Since is when it joined the line, by the servers' clock.
	Since time.Time
	// Holder says that it is at the head of the line.
	Holder bool
	// Dead says that its node is not ephemeral: nobody alive owns it, and it
	// is passed over.
	Dead bool
}

// readsAtOnce is how many participants are read at a time.
const readsAtOnce = 16

// Participants returns who stands in line, in the line's order, the holder
// first. Children of the lock's path that take no part are left out. If
// nobody is there it returns an empty slice.
//
// What it returns is what the server that the client is connected to knows;
// it may lag behind, and line and nodes are not read at one moment.
func (m *InterProcessMutex) Participants(ctx context.Context) ([]Participant, error) {
	if m.err != nil {
		return nil, m.err
	}
	ps, err := m.line.participants(ctx)
	if err != nil {
		return nil, fmt.Errorf("recipes: participants of %s: %w", m.line.path, withContext(ctx, err))
	}
	return ps, nil
}

func (l *line) participants(ctx context.Context) ([]Participant, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	children, _, err := l.client.Children(ctx, l.path)
	if errors.Is(err, framework.ErrNoNode) {
		return []Participant{}, nil
	}
	if err != nil {
		return nil, err
	}
	queue, _ := partition(l.rule.label, children)
	found := make([]*Participant, len(queue))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, c := range queue {
		reads.Go(func() error {
			p, err := l.participant(ctx, c)
			if errors.Is(err, framework.ErrNoNode) {
				return nil // it has left
			}
			found[i] = p
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	return l.inOrder(queue, found), nil
}

// participant reads one contender.
func (l *line) participant(ctx context.Context, c contender) (*Participant, error) {
	path := framework.JoinPath(l.path, c.name)
	data, stat, err := l.client.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	return &Participant{
		Name:      c.name,
		Path:      path,
		Data:      data,
		SessionID: stat.EphemeralOwner,
		Token:     stat.Czxid,
		Since:     stat.Created,
		Dead:      stat.EphemeralOwner == 0,
	}, nil
}

// inOrder sorts those of queue that were found, as the newest living one of
// them sees them, and marks the holder.
func (l *line) inOrder(queue []contender, found []*Participant) []Participant {
	byName := make(map[string]*Participant, len(found))
	var alive []contender
	var newest *Participant
	var pivot int32
	for i, p := range found {
		if p == nil {
			continue
		}
		byName[p.Name] = p
		c := queue[i]
		c.czxid = p.Token
		alive = append(alive, c)
		if newest == nil || newest.Dead && !p.Dead || newest.Dead == p.Dead && p.Token > newest.Token {
			newest, pivot = p, queue[i].seq
		}
	}
	slices.SortFunc(alive, compareFrom(pivot))
	out := make([]Participant, 0, len(alive))
	held := false
	for _, c := range alive {
		p := *byName[c.name]
		p.Holder = !held && !p.Dead
		held = held || p.Holder
		out = append(out, p)
	}
	return out
}
