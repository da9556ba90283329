//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// errOverlap says that somebody else was inside.
var errOverlap = errors.New("was granted while another is inside")

// kinds are the errors that have a kind of their own.
var kinds = []struct {
	err  error
	kind string
}{
	{recipes.ErrHeld, "held"},
	{recipes.ErrLost, "lost"},
	{recipes.ErrRevoked, "revoked"},
	{recipes.ErrReleased, "released"},
	{recipes.ErrClosed, "closed"},
	{framework.ErrNoNode, "nonode"},
	{errOverlap, "overlap"},
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

// A recipe is what the locks of a Go peer have in common.
type recipe interface {
	Acquire(ctx context.Context) (*recipes.Lease, error)
	TryAcquire(ctx context.Context) (*recipes.Lease, error)
	Participants(ctx context.Context) ([]recipes.Participant, error)
}

// families are the recipes by the verb that makes one.
var families = map[string]func(c *framework.Client, path string, opts ...recipes.Option) recipe{
	"mutex": func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessMutex(c, path, opts...)
	},
}

// A goLock is a lock of a Go peer with the lease that it has given last.
type goLock struct {
	peer   *goPeer
	client *framework.Client
	family string
	id     string
	path   string

	mu   sync.Mutex
	lock recipe
	held *held
}

// held is a lease with what its holder takes at the grant and uses later.
type held struct {
	lease *recipes.Lease
	ctx   context.Context // of the lease
	check framework.Op
}

func (s *goPeer) newLock(family, id, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return fmt.Errorf("%w: not connected", errUsage)
	}
	l := &goLock{peer: s, client: s.client, family: family, id: id, path: path}
	l.make()
	s.locks[id] = l
	return nil
}

// make makes the recipe, or makes it anew with other options.
func (l *goLock) make(opts ...recipes.Option) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock = families[l.family](l.client, l.path, opts...)
}

func (s *goPeer) revoke(path string) error {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	return recipes.Revoke(context.Background(), c, path)
}

func (l *goLock) run(verb string, args []string) ([]string, error) {
	switch {
	case verb == "acquire" && len(args) == 1:
		return l.acquire(args[0])
	case verb == "release":
		h, err := l.holding()
		if err != nil {
			return nil, err
		}
		return nil, h.lease.Release()
	case verb == "participants":
		return l.participants()
	case verb == "revocable":
		l.revocable()
		return nil, nil
	case verb == "contend" && len(args) == 3:
		return l.contend(args[0], args[1], args[2])
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

func (l *goLock) acquire(wait string) ([]string, error) {
	d, err := milliseconds(wait)
	if err != nil {
		return nil, err
	}
	lease, err := l.get(d)
	at := Monotonic()
	if err != nil {
		return nil, err
	}
	h := &held{lease: lease, ctx: lease.Context(context.Background()), check: lease.Check()}
	l.mu.Lock()
	l.held = h
	l.mu.Unlock()
	go l.tellEnd(h)
	return []string{lease.Path(), strconv.FormatInt(lease.Token(), 10), strconv.FormatInt(int64(at), 10)}, nil
}

// tellEnd makes an event of the end of a lease's context.
func (l *goLock) tellEnd(h *held) {
	<-h.ctx.Done()
	cause := context.Cause(h.ctx)
	l.peer.say("*", "ended", l.id, kindOf(cause), cause.Error())
}

// get acquires as a peer is asked to: 0 is not to wait, negative for ever.
func (l *goLock) get(wait time.Duration) (*recipes.Lease, error) {
	ctx := context.Background()
	if wait == 0 {
		return l.recipe().TryAcquire(ctx)
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return l.recipe().Acquire(ctx)
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
	l.make(recipes.WithRevocationListener(func(*recipes.Lease) { l.peer.say("*", "revoke", l.id) }))
}

// contend is the verb: the same turns as those of the Java peer.
func (l *goLock) contend(turns, inside, seed string) ([]string, error) {
	n, err := strconv.Atoi(turns)
	if err != nil {
		return nil, err
	}
	s, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(s, 0))
	var taken []string
	for len(taken) < n {
		turn, err := l.turn(random, inside)
		if err != nil {
			return nil, err
		}
		if turn != "" {
			taken = append(taken, turn)
		}
	}
	return taken, nil
}

// turn is one try to get the lock, and one turn if it is got.
func (l *goLock) turn(random *rand.Rand, inside string) (string, error) {
	wait := time.Duration(-1)
	if random.IntN(4) == 0 {
		wait = time.Duration(random.IntN(8)) * time.Millisecond
	}
	lease, err := l.get(wait)
	switch {
	case errors.Is(err, recipes.ErrHeld), wait > 0 && errors.Is(err, context.DeadlineExceeded):
		return "", nil
	case err != nil:
		return "", err
	}
	turn, err := inTurn(lease, random, inside)
	if err := errors.Join(err, lease.Release()); err != nil {
		return "", err
	}
	time.Sleep(time.Duration(random.IntN(500_000)))
	return turn, nil
}

// inTurn is the part of a turn that nobody else may be in.
func inTurn(lease *recipes.Lease, random *rand.Rand, inside string) (string, error) {
	began := Monotonic()
	f, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("%s %w", lease.Path(), errOverlap)
	}
	if err != nil {
		return "", err
	}
	time.Sleep(time.Duration(random.IntN(500_000)))
	err = errors.Join(f.Close(), os.Remove(inside))
	return fmt.Sprintf("%d:%d:%d", lease.Token(), began, Monotonic()), err
}
