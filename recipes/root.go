package recipes

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/batonzk/baton/framework"
)

// A rootType is what a recipe's root is for. It is the first line of the data
// of a root that Baton has made, behind rootMark; what follows is the recipe's
// own. Roots made by hand, by older versions and by other tools have none.
type rootType string

const (
	lockRoot     rootType = "lock"
	sequenceRoot rootType = "sequence-ids"
	blockRoot    rootType = "block-ids"
	workerRoot   rootType = "worker-ids"
)

const rootMark = "baton:"

var lockMark = lockRoot.mark("")

// parseRoot reads a root's data. t is "" if that has no type.
func parseRoot(data []byte) (t rootType, rest []byte) {
	marked, ok := bytes.CutPrefix(data, []byte(rootMark))
	if !ok {
		return "", data
	}
	name, rest, _ := bytes.Cut(marked, []byte("\n"))
	return rootType(name), rest
}

// mark returns the data of a root of the type.
func (t rootType) mark(rest string) []byte { return []byte(rootMark + string(t) + "\n" + rest) }

// isGenerator reports whether t is the type of something whose root is for
// nothing else. Types that this version does not know count as such.
func (t rootType) isGenerator() bool { return t != "" && t != lockRoot }

func (t rootType) String() string {
	switch t {
	case lockRoot:
		return "a lock"
	case "":
		return "nothing"
	}
	return "a generator (" + string(t) + ")"
}

// wrongRoot is the error of a root that lies in another's or has another in it.
// Both paths are as the servers know them.
func wrongRoot(own string, t rootType, other string, otherType rootType) error {
	switch {
	case own == other:
		return fmt.Errorf("%w: %q cannot be the root of %v: it is that of %v", ErrWrongRoot, own, t, otherType)
	case strings.HasPrefix(own, other+"/"):
		return fmt.Errorf("%w: %q cannot be the root of %v: it lies in %q, the root of %v", ErrWrongRoot, own, t, other, otherType)
	}
	return fmt.Errorf("%w: %q cannot be the root of %v: in it lies %q, the root of %v", ErrWrongRoot, own, t, other, otherType)
}

// generatorAbove returns an error if any of nodes, which are the root and what
// lies above it, is a generator's root.
func generatorAbove(own string, t rootType, nodes []framework.Ancestor) error {
	for _, n := range nodes {
		if other, _ := parseRoot(n.Data); other.isGenerator() && !(n.Path == own && other == t) {
			return wrongRoot(own, t, n.Path, other)
		}
	}
	return nil
}

// How far a root is searched for another's root in it.
const (
	searchDepth = 3
	searchMax   = 100 // nodes
)

// A search looks for a root inside another.
type search struct {
	client *framework.Client
	own    string // as the servers know it
	t      rootType
	locks  bool // look for locks as well as for generators
	inUse  bool // for those only that have contenders
}

// below returns an error if one of paths, or of what lies below them, is
// another's root. It does not look further than searchDepth and searchMax, nor
// where the client has no right to.
func (s *search) below(ctx context.Context, paths []string) error {
	left := searchMax
	for depth := 0; depth < searchDepth && len(paths) > 0; depth++ {
		paths = paths[:min(len(paths), left)]
		left -= len(paths)
		next, err := s.level(ctx, paths)
		if err != nil {
			return err
		}
		paths = next
	}
	return nil
}

// level looks at paths, and returns what lies right below them.
func (s *search) level(ctx context.Context, paths []string) ([]string, error) {
	var mu sync.Mutex
	var below []string
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for _, path := range paths {
		reads.Go(func() error {
			children, err := s.look(ctx, path)
			mu.Lock()
			defer mu.Unlock()
			below = append(below, children...)
			return err
		})
	}
	return below, reads.Wait()
}

// look looks at one node, and returns the paths of its children.
func (s *search) look(ctx context.Context, path string) ([]string, error) {
	data, stat, err := s.client.Get(ctx, path)
	if err != nil {
		return nil, unlessHidden(ctx, err)
	}
	if t, _ := parseRoot(data); t.isGenerator() || t == lockRoot && s.locks && !s.inUse {
		return nil, wrongRoot(s.own, s.t, s.client.ServerPath(path), t)
	}
	return s.list(ctx, path, stat)
}

// listMax is of how many children a node may have that is looked into.
const listMax = 10_000

// list returns the paths of a node's children. It returns an error if there are
// contenders of a lock among them, and those are looked for.
func (s *search) list(ctx context.Context, path string, stat framework.Stat) ([]string, error) {
	if stat.NumChildren == 0 || stat.NumChildren > listMax {
		return nil, nil
	}
	names, _, err := s.client.Children(ctx, path)
	if err != nil {
		return nil, unlessHidden(ctx, err)
	}
	lock := s.locks && slices.ContainsFunc(names, isContender)
	if s.locks && !lock && slices.Contains(names, leasesNode) {
		lock, err = s.hasPermits(ctx, framework.JoinPath(path, leasesNode))
	}
	if lock {
		return nil, wrongRoot(s.own, s.t, s.client.ServerPath(path), lockRoot)
	}
	return strangers(path, names), err
}

// hasPermits reports whether permits of a semaphore are among a node's children.
func (s *search) hasPermits(ctx context.Context, path string) (bool, error) {
	names, _, err := s.client.Children(ctx, path)
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseContender(leaseRule.label, name)
		return ok
	}), unlessHidden(ctx, err)
}

// strangers returns the paths of those children that are no contender's node:
// in which a root may be.
func strangers(path string, names []string) (paths []string) {
	for _, name := range names {
		if !isContender(name) {
			paths = append(paths, framework.JoinPath(path, name))
		}
	}
	return paths
}

// unlessHidden returns err unless it says that a node is not to be seen.
func unlessHidden(ctx context.Context, err error) error {
	if says(ctx, err, framework.ErrNoAuth) || says(ctx, err, framework.ErrNoNode) {
		return nil
	}
	return err
}

// checkRoot refuses a lock whose root lies in a generator's or has one in it.
// nodes are the line's root and what lies above it, and children what lies right
// in it, as of after the own node was made: so that of two who come at once at
// least one sees the other.
func (l *line) checkRoot(ctx context.Context, nodes []framework.Ancestor, children []string) error {
	own := l.client.ServerPath(l.lock)
	if err := generatorAbove(own, lockRoot, nodes); err != nil {
		return err
	}
	paths := strangers(l.path, children)
	beside, err := l.besideLine(ctx, nodes)
	if err != nil {
		return err
	}
	s := search{client: l.client, own: own, t: lockRoot}
	if err := s.below(ctx, append(paths, beside...)); err != nil {
		return err
	}
	l.checked.Store(true)
	return nil
}

// checkAbove refuses a lock whose root, which is not there, would lie in a
// generator's.
func (l *line) checkAbove(ctx context.Context) error {
	nodes, err := l.client.Ancestors(ctx, l.lock)
	if err != nil {
		return err
	}
	return generatorAbove(l.client.ServerPath(l.lock), lockRoot, nodes)
}

// besideLine returns what lies in the lock's root beside the line, if the line
// is only a part of the lock.
func (l *line) besideLine(ctx context.Context, nodes []framework.Ancestor) ([]string, error) {
	root := l.client.ServerPath(l.lock)
	for _, n := range nodes {
		if l.path == l.lock || n.Path != root || n.Stat.NumChildren < 2 {
			continue
		}
		names, _, err := l.client.Children(ctx, l.lock)
		names = slices.DeleteFunc(names, func(name string) bool { return name == queueNode || name == leasesNode })
		return strangers(l.lock, names), unlessHidden(ctx, err)
	}
	return nil, nil
}
