package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/batonzk/baton/framework"
)

// A generatorRoot is the node that a generator's numbers rest on: persistent,
// with the generator's type and state as its data.
type generatorRoot struct {
	client *framework.Client
	path   string
	t      rootType
	owns   func(child string) bool // whether a child is the generator's

	checked atomic.Bool // it was there, and it is apart from others
}

// A rootState is a generator's state as it was read, and the version that a
// change of it is bound to.
type rootState struct {
	data    []byte // without the type
	version int32
}

// read reads the state. If there is no root, and there has been none for this
// generator yet, it makes one with the state first.
func (r *generatorRoot) read(ctx context.Context, first any) (rootState, error) {
	if !r.checked.Load() {
		if err := r.open(ctx, first); err != nil {
			return rootState{}, err
		}
	}
	data, stat, err := r.client.Get(ctx, r.path)
	if says(ctx, err, framework.ErrNoNode) {
		if err := r.catchUp(ctx); err != nil {
			return rootState{}, err
		}
		data, stat, err = r.client.Get(ctx, r.path)
	}
	if err != nil {
		if says(ctx, err, framework.ErrNoNode) {
			err = fmt.Errorf("somebody has deleted the generator's root, and with it all that was known of its numbers: %w", err)
		}
		return rootState{}, err
	}
	return r.parse(data, stat)
}

// parse reads the root's node, and refuses one that is not this generator's.
func (r *generatorRoot) parse(data []byte, stat framework.Stat) (rootState, error) {
	t, rest := parseRoot(data)
	switch {
	case t != r.t && t != "":
		return rootState{}, wrongRoot(r.client.ServerPath(r.path), r.t, r.client.ServerPath(r.path), t)
	case t == "":
		return rootState{}, r.corrupt(data, "it does not begin with "+rootMark+string(r.t))
	case stat.EphemeralOwner != 0:
		return rootState{}, r.corrupt(data, "it is ephemeral")
	}
	return rootState{data: rest, version: stat.Version}, nil
}

// errGeneratorClosed is the error of a generator that was closed, while its
// client need not be.
var errGeneratorClosed error = generatorClosed{}

type generatorClosed struct{}

func (generatorClosed) Error() string { return "recipes: the generator was closed" }

// Is has it match ErrClosed, without what that says of the client, and
// ErrReleased, for what was reserved or claimed.
func (generatorClosed) Is(target error) bool { return target == ErrClosed || target == ErrReleased }

// catchUp makes sure that the next read sees what this process has seen in an
// older session: a new one may be of a server that lags behind.
func (r *generatorRoot) catchUp(ctx context.Context) error { return r.client.Sync(ctx, r.path) }

// open makes the root if there is none, or writes the state to one that nobody
// has ever written to. It looks for other recipes first, so that nothing is made
// in a wrong place, and again when it has made something: so that of two who come
// at once at least one sees the other.
func (r *generatorRoot) open(ctx context.Context, first any) error {
	root, err := r.apart(ctx)
	if err != nil {
		return err
	}
	switch {
	case root == nil:
		_, err = r.client.Create(ctx, r.path, r.encode(first), framework.WithParents(), framework.Idempotent())
	case isBlank(root.Data, root.Stat):
		_, err = r.client.Set(ctx, r.path, r.encode(first), root.Stat.Version, framework.Idempotent())
	default:
		r.checked.Store(true)
		return nil
	}
	if err != nil && !says(ctx, err, framework.ErrNodeExists) && !says(ctx, err, framework.ErrBadVersion) {
		return err
	}
	if _, err := r.apart(ctx); err != nil {
		return err
	}
	r.checked.Store(true)
	return nil
}

// isBlank reports whether a node was made by hand, or as a parent, and never
// written to: so no generator has ever rested on it.
func isBlank(data []byte, stat framework.Stat) bool {
	return len(data) == 0 && stat.Version == 0 && stat.EphemeralOwner == 0
}

// apart refuses a root that lies in another recipe's or has one in it, and
// returns the root, nil if it is not there or may not be read.
func (r *generatorRoot) apart(ctx context.Context) (*framework.Ancestor, error) {
	own := r.client.ServerPath(r.path)
	nodes, err := r.client.Ancestors(ctx, r.path)
	if err != nil {
		return nil, err
	}
	if err := generatorAbove(own, r.t, nodes); err != nil {
		return nil, err
	}
	if err := r.lockAbove(ctx, own, nodes); err != nil {
		return nil, err
	}
	if len(nodes) == 0 || nodes[0].Path != own {
		return nil, nil
	}
	names, _, err := r.client.Children(ctx, r.path)
	if err := unlessHidden(ctx, err); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, r.owns)
	// A lock that came after the generator was refused. What it may have left
	// keeps no generator from going on.
	t, _ := parseRoot(nodes[0].Data)
	s := search{client: r.client, own: own, t: r.t, locks: true, inUse: t == r.t}
	return &nodes[0], s.below(ctx, strangers(r.path, names))
}

// lockAbove returns an error if any of nodes, which are the root and what lies
// above it, is a lock's root, by its mark or by contenders in it.
func (r *generatorRoot) lockAbove(ctx context.Context, own string, nodes []framework.Ancestor) error {
	s := search{client: r.client.Root(), own: own, t: r.t, locks: true}
	for _, n := range nodes {
		if t, _ := parseRoot(n.Data); t == lockRoot {
			return wrongRoot(own, r.t, n.Path, t)
		}
		path, ok := within(r.client.Root(), n.Path)
		if !ok {
			continue // the client has no path for it
		}
		if _, err := s.list(ctx, path, n.Stat); err != nil {
			return err
		}
	}
	return nil
}

// within returns the path, relative to client, of a node that the servers know
// by serverPath.
func within(client *framework.Client, serverPath string) (string, bool) {
	top := client.ServerPath("/")
	if top == "/" {
		return serverPath, true
	}
	rest, ok := strings.CutPrefix(serverPath, top)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return "", false
	case rest == "":
		return "/", true
	}
	return rest, true
}

// corrupt is the error of data that the generator cannot have written.
func (r *generatorRoot) corrupt(data []byte, why string) error {
	return fmt.Errorf("%w: %s holds %s: %s; nothing was changed", ErrCorrupt, r.client.ServerPath(r.path), quote(data), why)
}

// decode reads a state that was written as JSON, and refuses what this version
// would not write.
func (r *generatorRoot) decode(data []byte, into any) error {
	if err := decodeStrictly(data, into); err != nil {
		return r.corrupt(data, err.Error())
	}
	return nil
}

// decodeStrictly reads one JSON value that has no field but those of into.
func decodeStrictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, more := d.Token(); !errors.Is(more, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// encode returns the data for a state.
func (r *generatorRoot) encode(state any) []byte {
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // states are plain numbers and texts
	}
	return r.t.mark(string(text))
}
