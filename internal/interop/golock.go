//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// kinds are the errors that have a kind of their own.
var kinds = []struct {
	err  error
	kind string
}{
	{recipes.ErrHeld, "held"},
	{recipes.ErrLost, "lost"},
	{recipes.ErrRevoked, "revoked"},
	{recipes.ErrDeadlock, "deadlock"},
	{recipes.ErrReleased, "released"},
	{recipes.ErrClosed, "closed"},
	{framework.ErrNoNode, "nonode"},
	{errUsage, "usage"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// kindOf returns what err is, "ok" for nil.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return "failed"
}

// A goLock is a lock of a Go peer with what it holds.
type goLock struct {
	peer   *goPeer
	client *framework.Client
	id     string
	path   string
	open   opener
	alone  bool    // whoever holds it has nobody beside him
	other  *goLock // the other side of a read-write lock, of the same owner

	mu   sync.Mutex
	lock recipe
	held *held
}

// held is what was acquired at once, with what its holder takes at the grant
// and uses later.
type held struct {
	leases recipes.Leases
	lease  *recipes.Lease  // the first
	ctx    context.Context // of lease
	check  framework.Op
}

func newHeld(leases ...*recipes.Lease) *held {
	first := leases[0]
	return &held{leases: leases, lease: first, ctx: first.Context(context.Background()), check: first.Check()}
}

func (h *held) release() error { return h.leases.Release() }

func (s *goPeer) newLocks(verb, id, path string, rest []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return fmt.Errorf("%w: not connected", errUsage)
	}
	ls, err := families[verb](s, s.client, id, path, rest)
	if err != nil {
		return err
	}
	for _, l := range ls {
		l.make()
		s.locks[l.id] = l
	}
	return nil
}

// sides returns the lock of an ID, or both sides of a read-write lock.
func (s *goPeer) sides(id string) []*goLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locks[id]; l != nil {
		return []*goLock{l}
	}
	if r := s.locks[id+readSide]; r != nil {
		return []*goLock{r, r.other}
	}
	return nil
}

// make makes the recipe, or makes it anew with other options.
func (l *goLock) make(opts ...recipes.Option) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock = l.open(l.client, l.path, opts...)
}

// revoke asks plainly, or with a reason, or with that and by force after a time.
func (s *goPeer) revoke(path string, how []string) error {
	var opts []recipes.RevokeOption
	if len(how) > 0 {
		opts = append(opts, recipes.WithReason(how[0]))
	}
	if len(how) > 1 {
		d, err := milliseconds(how[1])
		if err != nil {
			return err
		}
		opts = append(opts, recipes.WithDeadline(d), recipes.WithForce())
	}
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	return recipes.Revoke(context.Background(), c, path, opts...)
}

func (l *goLock) run(verb string, args []string) ([]string, error) {
	switch {
	case verb == "acquire" && len(args) == 1:
		return l.acquire(args[0], "1")
	case verb == "acquire" && len(args) == 2:
		return l.acquire(args[0], args[1])
	case verb == "release":
		h, err := l.holding()
		if err != nil {
			return nil, err
		}
		return nil, h.release()
	case verb == "participants":
		return l.participants()
	case verb == "revocable":
		l.revocable()
		return nil, nil
	case verb == "token":
		h, err := l.holding()
		if err != nil {
			return nil, err
		}
		return []string{strconv.FormatInt(h.lease.Token(), 10)}, nil
	case verb == "look":
		return l.look()
	case verb == "stop":
		return l.stop()
	}
	return nil, fmt.Errorf("%w: %s %s %q", errUsage, verb, l.id, args)
}

func (l *goLock) holding() (*held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		return nil, fmt.Errorf("%w: %s was never acquired", errUsage, l.id)
	}
	return l.held, nil
}

func (l *goLock) recipe() recipe {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lock
}

func (l *goLock) acquire(wait, permits string) ([]string, error) {
	d, err := milliseconds(wait)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(permits)
	if err != nil {
		return nil, err
	}
	h, err := l.get(l.owner(), d, n)
	at := Monotonic()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.held = h
	l.mu.Unlock()
	go l.tellEnd(h)
	var reply []string
	for _, lease := range h.leases {
		reply = append(reply, lease.Path(), strconv.FormatInt(lease.Token(), 10))
	}
	return slices.Insert(reply, 2, strconv.FormatInt(int64(at), 10)), nil
}

// owner returns the context that stands for who holds the other side, if he
// does.
func (l *goLock) owner() context.Context {
	if l.other == nil {
		return context.Background()
	}
	h, err := l.other.holding()
	if err != nil || h.lease.Err() != nil {
		return context.Background()
	}
	return h.ctx
}

// tellEnd makes an event of the end of a lease's context.
func (l *goLock) tellEnd(h *held) {
	<-h.ctx.Done()
	cause := context.Cause(h.ctx)
	l.peer.say("*", "ended", l.id, kindOf(cause), cause.Error())
}

// get acquires as a peer is asked to: 0 is not to wait, negative for ever.
func (l *goLock) get(ctx context.Context, wait time.Duration, permits int) (*held, error) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	lock := l.recipe()
	if s, ok := lock.(*recipes.InterProcessSemaphore); ok {
		acquire := s.AcquireN
		if wait == 0 {
			acquire = s.TryAcquireN
		}
		leases, err := acquire(ctx, permits)
		if err != nil {
			return nil, err
		}
		return newHeld(leases...), nil
	}
	acquire := lock.Acquire
	if wait == 0 {
		acquire = lock.TryAcquire
	}
	lease, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	return newHeld(lease), nil
}

func (l *goLock) participants() ([]string, error) {
	ps, err := l.recipe().Participants(context.Background())
	paths := make([]string, len(ps))
	for i, p := range ps {
		paths[i] = p.Path
	}
	return paths, err
}

func (l *goLock) revocable() {
	l.make(recipes.WithRevocationListener(func(lease *recipes.Lease) {
		request, _ := lease.Revocation()
		l.peer.say("*", "revoke", l.id, request.Reason)
	}))
}
