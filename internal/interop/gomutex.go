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

// A goMutex is a mutex of a Go peer with the lease that it has given last.
type goMutex struct {
	peer   *goPeer
	client *framework.Client
	id     string
	path   string

	mu    sync.Mutex
	mutex *recipes.InterProcessMutex
	held  *held
}

// held is a lease with what its holder takes at the grant and uses later.
type held struct {
	lease *recipes.Lease
	ctx   context.Context // of the lease
	check framework.Op
}

func (s *goPeer) newMutex(id, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return fmt.Errorf("%w: not connected", errUsage)
	}
	s.locks[id] = &goMutex{
		peer: s, client: s.client, id: id, path: path,
		mutex: recipes.NewInterProcessMutex(s.client, path),
	}
	return nil
}

func (s *goPeer) revoke(path string) error {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	return recipes.Revoke(context.Background(), c, path)
}

func (m *goMutex) run(verb string, args []string) ([]string, error) {
	switch {
	case verb == "acquire" && len(args) == 1:
		return m.acquire(args[0])
	case verb == "release":
		h, err := m.holding()
		if err != nil {
			return nil, err
		}
		return nil, h.lease.Release()
	case verb == "participants":
		return m.participants()
	case verb == "revocable":
		m.revocable()
		return nil, nil
	case verb == "contend" && len(args) == 3:
		return m.contend(args[0], args[1], args[2])
	case verb == "token":
		h, err := m.holding()
		if err != nil {
			return nil, err
		}
		return []string{strconv.FormatInt(h.lease.Token(), 10)}, nil
	case verb == "look":
		return m.look()
	case verb == "stop":
		return m.stop()
	}
	return nil, fmt.Errorf("%w: %s %s %q", errUsage, verb, m.id, args)
}

func (m *goMutex) holding() (*held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		return nil, fmt.Errorf("%w: %s was never acquired", errUsage, m.id)
	}
	return m.held, nil
}

func (m *goMutex) recipe() *recipes.InterProcessMutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mutex
}

func (m *goMutex) acquire(wait string) ([]string, error) {
	d, err := milliseconds(wait)
	if err != nil {
		return nil, err
	}
	lease, err := m.get(d)
	at := Monotonic()
	if err != nil {
		return nil, err
	}
	h := &held{lease: lease, ctx: lease.Context(context.Background()), check: lease.Check()}
	m.mu.Lock()
	m.held = h
	m.mu.Unlock()
	go m.tellEnd(h)
	return []string{lease.Path(), strconv.FormatInt(lease.Token(), 10), strconv.FormatInt(int64(at), 10)}, nil
}

// tellEnd makes an event of the end of a lease's context.
func (m *goMutex) tellEnd(h *held) {
	<-h.ctx.Done()
	cause := context.Cause(h.ctx)
	m.peer.say("*", "ended", m.id, kindOf(cause), cause.Error())
}

// get acquires as a peer is asked to: 0 is not to wait, negative for ever.
func (m *goMutex) get(wait time.Duration) (*recipes.Lease, error) {
	ctx := context.Background()
	if wait == 0 {
		return m.recipe().TryAcquire(ctx)
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return m.recipe().Acquire(ctx)
}

func (m *goMutex) participants() ([]string, error) {
	ps, err := m.recipe().Participants(context.Background())
	paths := make([]string, len(ps))
	for i, p := range ps {
		paths[i] = p.Path
	}
	return paths, err
}

func (m *goMutex) revocable() {
	heard := func(*recipes.Lease) { m.peer.say("*", "revoke", m.id) }
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mutex = recipes.NewInterProcessMutex(m.client, m.path, recipes.WithRevocationListener(heard))
}

// contend is the verb: the same turns as those of the Java peer.
func (m *goMutex) contend(turns, inside, seed string) ([]string, error) {
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
		turn, err := m.turn(random, inside)
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
func (m *goMutex) turn(random *rand.Rand, inside string) (string, error) {
	wait := time.Duration(-1)
	if random.IntN(4) == 0 {
		wait = time.Duration(random.IntN(8)) * time.Millisecond
	}
	lease, err := m.get(wait)
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
