package framework_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestValidatePath(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b", "/a b", "/é", "/...", "/.a", "/a.", "/zookeeper/config", "/\u4e2d"} {
		if err := framework.ValidatePath(path); err != nil {
			t.Error(err)
		}
	}
	for path, text := range map[string]string{
		"": "empty", "a": "start", "/a/": "ends", "//": "ends", "/a//b": "empty component", "/.": `"."`, "/a/../b": `".."`,
		"/a\x00": "U+0000", "/a\x1f": "U+001F", "/a\x7f": "U+007F", "/\ue000": "U+E000", "/\ufff0": "U+FFF0",
		"/\xff": "UTF-8", "/\U0001F600": "U+1F600",
	} {
		err := framework.ValidatePath(path)
		if !errors.Is(err, framework.ErrInvalidPath) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %s", path, err, text)
		}
	}
}

func TestJoinAndSplitPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent := rapid.SampledFrom([]string{"/", "/a", "/a/b", "/ab/c"}).Draw(t, "parent")
		name := rapid.StringMatching(`[a-z0-9_-]{1,5}`).Draw(t, "name")
		p, n := framework.SplitPath(framework.JoinPath(parent, name))
		if p != parent || n != name {
			t.Fatalf("%q and %q became %q and %q", parent, name, p, n)
		}
	})
	if p, n := framework.SplitPath("/"); p != "/" || n != "" {
		t.Fatalf("%q, %q", p, n)
	}
}

// chrooted gives an ensemble a chroot.
type chrooted struct {
	*embedded.Server
	chroot string
}

func (c chrooted) Chroot() string { return c.chroot }

func TestNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		plain := connect(t, srv)
		create(t, plain, "/chroot", "")
		c := connect(t, chrooted{srv, "/chroot"}, framework.WithNamespace("foo"))
		inner, err := c.Namespace("/bar/baz")
		if err != nil {
			t.Fatal(err)
		}
		made := create(t, inner, "/n", "")
		if made.Path != "/n" || inner.FullPath("/n") != "/foo/bar/baz/n" || c.FullPath("/n") != "/foo/n" {
			t.Fatalf("%q, %q", made.Path, inner.FullPath("/n"))
		}
		if inner.ServerPath("/n") != "/chroot/foo/bar/baz/n" {
			t.Fatalf("on the server it is %q", inner.ServerPath("/n"))
		}
		if inner.FullPath("/") != "/foo/bar/baz" || inner.Root().FullPath("/") != "/" {
			t.Fatalf("%q, %q", inner.FullPath("/"), inner.Root().FullPath("/"))
		}
		node(t, srv, "/chroot/foo/bar/baz/n")
		if inner.Root() != c.Root() || inner.Session() != c.Session() {
			t.Fatal("namespaces do not share their session")
		}
		if _, err := inner.Root().Exists(t.Context(), "/foo/bar/baz/n"); err != nil {
			t.Fatal(err)
		}
		names, _, err := inner.Children(t.Context(), "/")
		if err != nil || len(names) != 1 || names[0] != "n" {
			t.Fatalf("%q, %v", names, err)
		}
		for _, same := range []string{"", "/"} {
			if got, err := c.Namespace(same); err != nil || got != c {
				t.Fatalf("namespace %q: %v", same, err)
			}
		}
		for _, bad := range []string{"a//b", "a/", "../a", "/a/."} {
			if _, err := c.Namespace(bad); !errors.Is(err, framework.ErrInvalidPath) || !strings.Contains(err.Error(), bad) {
				t.Fatalf("namespace %q: %v", bad, err)
			}
		}
	})
}

// TestNamespaceGoesByComponents: /foobar is not in the namespace /foo.
func TestNamespaceGoesByComponents(t *testing.T) {
	for _, tc := range []struct{ ns, path, full string }{
		{"foo", "/foobar", "/foo/foobar"},
		{"foo", "/foo", "/foo/foo"},
		{"foo", "/foo/foo", "/foo/foo/foo"},
	} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv, framework.WithNamespace(tc.ns))
			made := create(t, c, tc.path+"/n", "", framework.WithParents())
			if made.Path != tc.path+"/n" || c.FullPath(made.Path) != tc.full+"/n" {
				t.Fatalf("made %q, full %q", made.Path, c.FullPath(made.Path))
			}
		})
	}
}

func TestChroots(t *testing.T) {
	for chroot, ok := range map[string]bool{"": true, "/": true, "/a": true, "/a/b": true, "a": false, "/a/": false, "/a//b": false} {
		_, err := framework.New(static{chroot})
		if ok != (err == nil) || err != nil && !errors.Is(err, framework.ErrInvalidPath) {
			t.Errorf("chroot %q: %v", chroot, err)
		}
	}
}

type static struct{ chroot string }

func (static) Servers(context.Context) ([]net.Addr, error) { panic("I/O") }
func (s static) Chroot() string                            { return s.chroot }

func TestTrimPrefix(t *testing.T) {
	for _, tc := range [][3]string{
		{"/foo", "/foo/a", "/a"}, {"/foo", "/foo", "/"}, {"/foo", "/foobar", "/foobar"}, {"", "/a", "/a"}, {"/foo", "/a", "/a"},
	} {
		if got := framework.TrimPrefix(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%q without %q: %q, want %q", tc[1], tc[0], got, tc[2])
		}
	}
}

// TestInvalidPathIsRefused by every operation, with nothing sent.
func TestInvalidPathIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		const bad = "/a//b"
		ctx := t.Context()
		errs := map[string]error{"Sync": c.Sync(ctx, bad), "Delete": c.Delete(ctx, bad, 0, framework.Guaranteed())}
		_, _, errs["Get"] = c.Get(ctx, bad)
		_, errs["Exists"] = c.Exists(ctx, bad)
		_, _, errs["Children"] = c.Children(ctx, bad)
		_, _, errs["GetACL"] = c.GetACL(ctx, bad)
		_, _, _, errs["GetW"] = c.GetW(ctx, bad)
		_, _, errs["ExistsW"] = c.ExistsW(ctx, bad)
		_, _, _, errs["ChildrenW"] = c.ChildrenW(ctx, bad)
		_, errs["Create"] = c.Create(ctx, bad, nil, framework.Protected())
		_, errs["Set"] = c.Set(ctx, bad, nil, 0)
		_, errs["SetACL"] = c.SetACL(ctx, bad, framework.WorldACL(framework.PermAll), 0)
		_, errs["Multi"] = c.Multi(ctx, framework.CheckOp(bad, 0))
		for name, err := range errs {
			if !errors.Is(err, framework.ErrInvalidPath) || !strings.Contains(err.Error(), bad) {
				t.Errorf("%s: %v", name, err)
			}
		}
		synctest.Wait()
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}
