package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
)

func TestMulti(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := connect(t, srv).Namespace("ns")
		if err != nil {
			t.Fatal(err)
		}
		create(t, c, "/n", "")
		create(t, c, "/gone", "")
		results, err := c.Multi(t.Context(),
			framework.CheckOp("/n", 0),
			framework.SetOp("/n", []byte("x"), 0),
			framework.CreateOp("/n/s", []byte("y"), framework.EphemeralSequential),
			framework.CreateOp("/box", nil, framework.Container),
			framework.DeleteOp("/gone", framework.AnyVersion))
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != 5 || results[1].Stat.Version != 1 || results[2].Path != "/n/s0000000000" || results[3].Path != "/box" {
			t.Fatalf("%+v", results)
		}
		if n := node(t, srv, "/ns/n/s0000000000"); n.Owner != c.Session().ID() || string(n.Data) != "y" {
			t.Fatalf("%+v", n)
		}
		if n := node(t, srv, "/ns/box"); n.Mode != "container" {
			t.Fatalf("%+v", n)
		}
	})
}

func TestMultiFails(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		results, err := c.Multi(t.Context(),
			framework.SetOp("/n", []byte("x"), 0),
			framework.CheckOp("/n", 7),
			framework.CreateOp("/m", nil, framework.Persistent))
		var e *framework.Error
		if !errors.Is(err, framework.ErrBadVersion) || !errors.As(err, &e) || e.Code != int32(wire.CodeBadVersion) || e.Unknown {
			t.Fatalf("%v", err)
		}
		if !strings.Contains(err.Error(), "operation 1") {
			t.Fatalf("%v does not name the operation", err)
		}
		if e.Op != "multi" || e.Path != "/n" || !strings.Contains(err.Error(), "multi /n: operation 1: check: ") {
			t.Fatalf("%v: %q %q", err, e.Op, e.Path)
		}
		if len(results) != 3 || !errors.Is(results[0].Err, framework.ErrRolledBack) ||
			!errors.Is(results[1].Err, framework.ErrBadVersion) || !errors.Is(results[2].Err, framework.ErrRolledBack) {
			t.Fatalf("%+v", results)
		}
		if len(node(t, srv, "/n").Data) != 0 {
			t.Fatal("not rolled back")
		}
	})
}

// TestMultiRefusals: nothing is sent.
func TestMultiRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		dead := errors.New("the lease is dead")
		op := framework.FailOp(dead)
		if op.Err() != dead || framework.CheckOp("/n", 0).Err() != nil {
			t.Fatal("Err")
		}
		for text, ops := range map[string][]framework.Op{
			"operation 1: the lease is dead": {framework.CheckOp("/n", 0), op},
			"operation 0":                    {framework.DeleteOp("n", 0)},
			`"/n/"`:                          {framework.SetOp("/n/", nil, 0)},
			"zero Op":                        {{}},
			"For(nil)":                       {framework.CheckOp("/n", 0).For(nil)},
			"multi /x: operation 0":          {framework.CheckOp("/x", 0).For(unstarted(t, srv))},
			"Mode(9)":                        {framework.CreateOp("/n", nil, 9)},
			"Mode(-1)":                       {framework.CreateOp("/n", nil, -1)},
		} {
			if _, err := c.Multi(t.Context(), ops...); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %s", err, text)
			}
		}
		if _, err := c.Multi(t.Context(), op); !errors.Is(err, dead) {
			t.Error(err)
		}
		lost := framework.FailOp(framework.ErrSessionLost)
		if _, err := c.Multi(t.Context(), lost); !errors.Is(err, framework.ErrSessionLost) || framework.IsRetryable(err) {
			t.Error(err)
		}
		synctest.Wait()
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
		if results, err := c.Multi(t.Context()); err != nil || len(results) != 0 {
			t.Fatalf("empty: %+v, %v", results, err)
		}
	})
}

// TestMultiReplyOfWrongLength is the server's fault, and not the caller's.
func TestMultiReplyOfWrongLength(t *testing.T) {
	fakeBubble(t, func(_ int, c *fakeConn) {
		if _, ok := c.greet(wire.ConnectResponse{SessionID: 7}); ok {
			c.serve(func(wire.RequestHeader, *wire.Decoder) wire.Record { return &wire.MultiResponse{} })
		}
	}, func(t *testing.T, srv *fake) {
		c := connect(t, srv)
		results, err := c.Multi(t.Context(), framework.CheckOp("/n", 0))
		if !errors.Is(err, framework.ErrServer) || len(results) != 0 {
			t.Fatalf("%+v, %v", results, err)
		}
	})
}

// TestOpIsReusable: an Op may be part of several multis, of several clients.
func TestOpIsReusable(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		a, _ := c.Namespace("a")
		create(t, c, "/a", "")
		op := framework.CreateOp("/n", nil, framework.PersistentSequential)
		var paths []string
		for _, c := range []*framework.Client{c, a, c} {
			results, err := c.Multi(t.Context(), op, op)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, c.FullPath(results[0].Path), c.FullPath(results[1].Path))
		}
		slices.Sort(paths)
		if got := slices.Compact(slices.Clone(paths)); len(got) != 6 {
			t.Fatalf("paths %q", paths)
		}
	})
}

// TestMultiLost: an error that is about no operation names none.
func TestMultiLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		var done attempts
		hooked := connect(t, srv, framework.WithHooks(&done))
		for _, c := range []*framework.Client{c, hooked} {
			srv.LoseReply(isOp("multi"))
			_, err := c.Multi(t.Context(), framework.SetOp("/", nil, framework.AnyVersion), framework.CheckOp("/zookeeper", framework.AnyVersion))
			var e *framework.Error
			if !errors.As(err, &e) || e.Path != "" || !strings.HasPrefix(err.Error(), "multi of 2: ") {
				t.Fatal(err)
			}
		}
		if got := done.last(); got.Op != "multi" || got.Path != "" {
			t.Fatalf("hook was told %+v", got)
		}
		if _, err := hooked.Multi(t.Context(), framework.CheckOp("/none", 0)); err == nil || done.last().Path != "/none" {
			t.Fatalf("hook was told %+v", done.last())
		}
	})
}

// TestMultiOfChecksLost: one that changes nothing is asked again.
func TestMultiOfChecksLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		srv.LoseReply(isOp("multi"))
		if _, err := c.Multi(t.Context(), framework.CheckOp("/", framework.AnyVersion)); err != nil {
			t.Error(err)
		}
		srv.LoseReply(isOp("multi"))
		_, err := c.Multi(t.Context(), framework.CheckOp("/", 7))
		if !errors.Is(err, framework.ErrBadVersion) || framework.IsUnknown(err) {
			t.Error(err)
		}
	})
}

// TestOpFor: an operation that is bound to a view means the same node in the
// multi of every view of the same root.
func TestOpFor(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		root := connect(t, srv)
		a, _ := root.Namespace("a")
		b, _ := root.Namespace("b")
		create(t, a, "/n", "")
		create(t, b, "/m", "")
		for name, c := range map[string]*framework.Client{"root": root, "a": a, "b": b} {
			results, err := c.Multi(t.Context(), framework.CheckOp("/n", framework.AnyVersion).For(a),
				framework.CreateOp("/s-", nil, framework.PersistentSequential).For(b))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if path := results[1].Path; !strings.HasPrefix(path, "/s-") {
				t.Fatalf("%s: created %s", name, path)
			}
		}
		if n := node(t, srv, "/b"); len(n.Children) != 4 {
			t.Fatalf("%+v", n)
		}
		other := connect(t, srv)
		if _, err := other.Multi(t.Context(), framework.CheckOp("/n", 0).For(a)); !errors.Is(err, framework.ErrInvalidOption) {
			t.Fatalf("another client: %v", err)
		}
		if _, err := root.Multi(t.Context(), framework.CheckOp("/n", 0)); !errors.Is(err, framework.ErrNoNode) {
			t.Fatalf("unbound: %v", err)
		}
	})
}

// TestOpOr: only the operation that fails gives its error.
func TestOpOr(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		lost := fmt.Errorf("the lease is gone: %w", framework.ErrSessionLost)
		again := errors.New("outer")
		check := framework.CheckOp("/lease", framework.AnyVersion).Or(lost).Or(nil).Or(again)
		results, err := c.Multi(t.Context(), framework.SetOp("/n", nil, 0).Or(errors.New("innocent")), check)
		for _, err := range []error{err, results[1].Err} {
			if !errors.Is(err, lost) || !errors.Is(err, again) || !errors.Is(err, framework.ErrNoNode) || strings.Contains(err.Error(), "innocent") {
				t.Fatal(err)
			}
		}
		var e *framework.Error
		if !errors.As(err, &e) || e.Code != int32(wire.CodeNoNode) || e.Path != "/lease" || framework.IsRetryable(err) {
			t.Fatalf("%v, code %d", err, e.Code)
		}
		if _, err := c.Multi(t.Context(), framework.CheckOp("/n", 7), check); !errors.Is(err, framework.ErrBadVersion) || errors.Is(err, lost) {
			t.Fatalf("another has failed: %v", err)
		}
		if _, err := c.Multi(t.Context(), framework.FailOp(again).Or(lost)); !errors.Is(err, again) || !errors.Is(err, lost) {
			t.Fatal(err)
		}
		create(t, c, "/lease", "")
		if _, err := c.Multi(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCreateOpACL: each client gives the node the ACL of its own provider,
// also when one Op is part of multis of several clients at the same time; and
// the caller's slice stays the caller's.
func TestCreateOpACL(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		given := framework.WorldACL(framework.PermRead | framework.PermDelete)
		ops := []framework.Op{
			framework.CreateOp("/a", nil, framework.Persistent),
			framework.CreateOp("/b", nil, framework.Persistent, given...),
		}
		given[0].Perms = framework.PermAll
		perms := map[string]framework.Perm{"read": framework.PermRead, "write": framework.PermRead | framework.PermWrite}
		var wg sync.WaitGroup
		for name, p := range perms {
			root := connect(t, srv, framework.WithACLProvider(func(string) []framework.ACL { return framework.WorldACL(p) }))
			create(t, root, "/"+name, "", framework.WithACL(framework.WorldACL(framework.PermAll)...))
			c, _ := root.Namespace(name)
			wg.Go(func() {
				if _, err := c.Multi(context.Background(), ops...); err != nil {
					t.Error(err)
				}
				for path, want := range map[string]framework.Perm{"/a": p, "/b": framework.PermRead | framework.PermDelete} {
					if acl, _, err := c.GetACL(context.Background(), path); err != nil || acl[0].Perms != want {
						t.Errorf("%s%s: %+v, %v, want %v", name, path, acl, err, want)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestNoACL: a provider that gives none is refused here and not by a server,
// whatever the node is made by; and so is one that gives none for a parent.
func TestNoACL(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithACLProvider(func(path string) []framework.ACL {
			if path == "/p/n" {
				return framework.WorldACL(framework.PermAll)
			}
			return nil
		}))
		log := logRequests(srv)
		op := framework.CreateOp("/n", nil, framework.Persistent)
		below := framework.CreateOp("/p/n", nil, framework.Persistent).WithParents()
		for name, call := range map[string]func() error{
			"Create":     func() error { _, err := c.Create(t.Context(), "/n", nil); return err },
			"CreateOp":   func() error { _, err := c.Multi(t.Context(), op); return err },
			"Create's":   func() error { _, err := c.Create(t.Context(), "/p/n", nil, framework.WithParents()); return err },
			"CreateOp's": func() error { _, err := c.Multi(t.Context(), below); return err },
		} {
			if err := call(); !errors.Is(err, framework.ErrInvalidACL) || !strings.Contains(err.Error(), "it is empty") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if ops := slices.Sorted(slices.Values(log.ops())); !slices.Equal(ops, []string{"create2", "multi"}) {
			t.Errorf("requests %v, want one each for what has an ACL", ops)
		}
	})
}
