package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// TestRandomPermits lets one thing happen after the other, and after each
// compares who has permits with a model that tells it exactly: those at the
// head of a queue for whom there is room, by a limit that changes, and nobody
// else.
func TestRandomPermits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) permitStep {
			return permitStep{
				What: rapid.IntRange(0, len(permitSteps)-1).Draw(t, "what"),
				N:    rapid.IntRange(1, 4).Draw(t, "n"),
				Pick: rapid.IntRange(0, 99).Draw(t, "pick"),
			}
		}), 5, 40).Draw(rt, "script")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			w, stop := startWorld(t)
			defer stop()
			m := &permitModel{world: w, limit: 3}
			for range 3 {
				m.clients = append(m.clients, w.client())
			}
			m.admin = recipes.NewSharedCount(w.client(), countPath, int32(m.limit))
			for i, s := range script {
				permitSteps[s.What](m, s)
				time.Sleep(soon)
				m.settleModel()
				if m.compare(fmt.Sprintf("after step %d, %+v", i+1, s)); len(m.problems) > 0 {
					break
				}
			}
			m.end()
			problems = m.problems
		})
		if len(problems) > 0 {
			rt.Fatal(strings.Join(problems, "\n"))
		}
	})
}

type permitStep struct{ What, N, Pick int }

var permitSteps = []func(m *permitModel, s permitStep){
	(*permitModel).acquire, (*permitModel).acquire, (*permitModel).acquire,
	(*permitModel).try,
	(*permitModel).release, (*permitModel).release,
	(*permitModel).releaseOne,
	(*permitModel).cancel,
	(*permitModel).setLimit,
	(*permitModel).deletePlace,
	(*permitModel).deletePermit,
	(*permitModel).cut,
}

// A candidate is one call, until its permits are given back.
type candidate struct {
	name string
	n    int
	wish *wish
	held int // of its permits, by the model
	lost bool
}

type permitModel struct {
	*world
	clients  []*framework.Client
	admin    *recipes.SharedCount
	limit    int
	made     int
	queue    []*candidate // in the line's order
	holders  []*candidate
	problems []string
}

func (m *permitModel) problem(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

func (m *permitModel) outNow() (n int) {
	for _, c := range m.holders {
		n += c.held
	}
	return n
}

// settleModel grants what there is room for.
func (m *permitModel) settleModel() {
	for len(m.queue) > 0 && m.outNow()+m.queue[0].n <= m.limit {
		c := m.queue[0]
		c.held = c.n
		m.queue, m.holders = m.queue[1:], append(m.holders, c)
	}
}

func (m *permitModel) compare(when string) {
	for i, c := range m.holders {
		if !c.wish.granted() {
			m.problem("%s: holder %d, %s, who wants %d, has nothing", when, i, c.name, c.n)
		}
	}
	for i, c := range m.queue {
		select {
		case <-c.wish.done:
			m.problem("%s: waiter %d, %s, has %v, %v", when, i, c.name, c.wish.leases, c.wish.err)
		default:
		}
	}
	if out := m.out(); out != m.outNow() || m.inLine() != len(m.queue) {
		m.problem("%s: %d are out and %d in line, want %d and %d, with a limit of %d", when, out, m.inLine(), m.outNow(), len(m.queue), m.limit)
	}
}

func (m *permitModel) semaphoreOf(s permitStep) (string, *recipes.InterProcessSemaphore) {
	m.made++
	name := strconv.Itoa(m.made)
	c := m.clients[s.Pick%len(m.clients)]
	limit := recipes.SharedLimit(recipes.NewSharedCount(c, countPath, 3))
	return name, recipes.NewInterProcessSemaphore(c, root, limit, recipes.WithData([]byte(name)))
}

func (m *permitModel) acquire(s permitStep) {
	name, sem := m.semaphoreOf(s)
	m.queue = append(m.queue, &candidate{name: name, n: s.N, wish: m.wish(sem, s.N)})
}

func (m *permitModel) try(s permitStep) {
	_, sem := m.semaphoreOf(s)
	leases, err := sem.TryAcquireN(m.ctx, s.N)
	switch room := len(m.queue) == 0 && m.outNow()+s.N <= m.limit; {
	case err == nil && !room:
		m.problem("a try for %d was granted, with %d of %d out and %d in line", s.N, m.outNow(), m.limit, len(m.queue))
	case err != nil && (room || !errors.Is(err, recipes.ErrHeld)):
		m.problem("a try for %d, with %d of %d out: %v", s.N, m.outNow(), m.limit, err)
	}
	if err := leases.Release(); err != nil {
		m.problem("releasing what a try got: %v", err)
	}
}

func (m *permitModel) release(s permitStep) {
	if len(m.holders) == 0 {
		return
	}
	i := s.Pick % len(m.holders)
	c := m.holders[i]
	m.holders = slices.Delete(m.holders, i, i+1)
	if err := c.wish.leases.Release(); (err != nil) != c.lost {
		m.problem("releasing %s: %v, it has lost some: %v", c.name, err, c.lost)
	}
}

// releaseOne gives back one permit of several.
func (m *permitModel) releaseOne(s permitStep) {
	for _, c := range m.holders {
		for _, l := range c.wish.leases {
			if l.Err() == nil {
				if err := l.Release(); err != nil {
					m.problem("releasing one: %v", err)
				}
				c.held--
				return
			}
		}
	}
}

func (m *permitModel) cancel(s permitStep) {
	if len(m.queue) == 0 {
		return
	}
	i := s.Pick % len(m.queue)
	c := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	c.wish.cancel()
	<-c.wish.done
	if !errors.Is(c.wish.err, context.Canceled) {
		m.problem("cancelling %s: %v", c.name, c.wish.err)
	}
}

func (m *permitModel) setLimit(s permitStep) {
	m.limit = s.Pick % 6
	if err := m.admin.Set(m.ctx, int32(m.limit)); err != nil {
		m.problem("setting the limit: %v", err)
	}
}

// deletePlace sends the first in line to its end. The others find out later.
func (m *permitModel) deletePlace(permitStep) {
	if len(m.queue) == 0 {
		return
	}
	c := m.queue[0]
	m.queue = append(m.queue[1:], c)
	node, _ := m.srv.Node(lineOf)
	for _, name := range node.Children {
		if n, _ := m.srv.Node(lineOf + "/" + name); string(n.Data) == c.name {
			m.remove(m.clients[0], lineOf+"/"+name)
		}
	}
}

// deletePermit makes a holder lose one.
func (m *permitModel) deletePermit(s permitStep) {
	if len(m.holders) == 0 {
		return
	}
	c := m.holders[s.Pick%len(m.holders)]
	for _, l := range c.wish.leases {
		if l.Err() == nil {
			m.remove(m.clients[0], l.Path())
			c.held--
			c.lost = true
			return
		}
	}
}

// cut breaks all connections, with or without a reply on its way.
func (m *permitModel) cut(s permitStep) {
	if s.N == 1 {
		m.srv.LoseReply(op("multi", "create2", "getChildren2"))
		return
	}
	m.srv.DropConnections()
}

func (m *permitModel) end() {
	for _, c := range m.queue {
		c.wish.cancel()
		<-c.wish.done
	}
	for _, c := range append(m.holders, m.queue...) { // one who left has let the next one in
		_ = c.wish.leases.Release()
	}
	time.Sleep(soon)
	if left := m.ephemerals(); len(left) > 0 {
		m.problem("left behind: %v", left)
	}
	if left := m.srv.Watches(); len(left) > 0 {
		m.problem("watches left behind: %v", left)
	}
}
