package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

func TestParents(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		asked := map[string]int{}
		var mu sync.Mutex
		provider := func(path string) []framework.ACL {
			mu.Lock()
			defer mu.Unlock()
			asked[path]++
			return framework.DigestACL(framework.PermAll, "ann", "pw")
		}
		c := connect(t, srv, framework.WithACLProvider(provider), framework.WithAuth("digest", []byte("ann:pw")))
		log := logRequests(srv)
		create(t, c, "/a/b/c/n", "x", framework.WithParents())
		if got := srv.Dump(); !strings.Contains(got, "/a/b/c/n") {
			t.Fatal(got)
		}
		for _, path := range []string{"/a", "/a/b", "/a/b/c"} {
			if n := node(t, srv, path); n.Mode != "container" || len(n.Data) != 0 {
				t.Fatalf("%+v", n)
			}
			acl, _, err := c.GetACL(t.Context(), path)
			if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" {
				t.Fatalf("%s: ACL %+v, %v", path, acl, err)
			}
			if asked[path] == 0 {
				t.Fatalf("the provider was not asked for %s", path)
			}
		}
		// Bottom up: nothing above the first node that is there is touched.
		log.reset()
		create(t, c, "/a/b/d/n", "", framework.WithParents())
		for _, r := range log.all {
			if r.Path == "/a" || r.Path == "/a/b" {
				t.Fatalf("%s touched", r.Path)
			}
		}
	})
}

// TestParentsWithoutRightsAbove: a client needs rights only where it creates.
func TestParentsWithoutRightsAbove(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, owner := connect(t, srv), connect(t, srv, framework.WithAuth("digest", []byte("ann:pw")))
		create(t, owner, "/closed", "", framework.WithACL(framework.DigestACL(framework.PermAll, "ann", "pw")...))
		create(t, owner, "/closed/open", "")
		create(t, c, "/closed/open/a/b/n", "", framework.WithParents())
		_, err := c.Create(t.Context(), "/closed/other/n", nil, framework.WithParents())
		if !errors.Is(err, framework.ErrNoAuth) {
			t.Fatal(err)
		}
	})
}

// TestServerWithoutContainers: parents are persistent then, asked once.
func TestServerWithoutContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := startServer(t, embedded.WithoutContainers())
		c := connect(t, srv)
		create(t, c, "/a/b/n", "", framework.WithParents())
		log := logRequests(srv)
		create(t, c, "/c/d/n", "", framework.WithParents())
		if n := log.count("createContainer"); n != 0 {
			t.Fatalf("%d more tries of a container", n)
		}
		if n := node(t, srv, "/a/b"); n.Mode != "persistent" {
			t.Fatalf("%+v", n)
		}
		_, err := c.Create(t.Context(), "/t", nil, framework.TTL(time.Second))
		if !errors.Is(err, framework.ErrUnimplemented) {
			t.Fatal(err)
		}
		_, err = c.Create(t.Context(), "/t", nil, framework.WithMode(framework.Container))
		if !errors.Is(err, framework.ErrUnimplemented) {
			t.Fatal(err)
		}
	})
}

func TestWithoutContainers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithoutContainers(), framework.WithNamespace("ns"))
		log := logRequests(srv)
		create(t, c, "/a/n", "", framework.WithParents())
		if log.count("createContainer") != 0 || node(t, srv, "/ns").Mode != "persistent" {
			t.Fatalf("requests %v", log.ops())
		}
	})
}

// TestParentVanishes: the containers are reaped at every step of making them
// and the node.
func TestParentVanishes(t *testing.T) {
	for step := range 7 {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c, other := connect(t, srv), connect(t, srv)
			n := 0
			srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if r.Op == "createContainer" || r.Op == "create2" {
					if n == step {
						reap(srv, other)
					}
					n++
				}
				return embedded.Pass
			})
			var siblings []string
			made, err := c.Create(t.Context(), "/a/b/c/lock-", nil, protected(&siblings)...)
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if node(t, srv, "/a/b/c").Children[0] != made.Path[len("/a/b/c/"):] {
				t.Fatalf("made %q", made.Path)
			}
		})
	}
}

// reap takes the deepest container away that is empty, as the server's reaper
// does with one that had a child before.
func reap(srv *embedded.Server, other *framework.Client) {
	for _, path := range []string{"/a/b/c", "/a/b", "/a"} {
		if n, ok := srv.Node(path); ok && len(n.Children) == 0 {
			_ = other.Delete(context.Background(), path, framework.AnyVersion)
			return
		}
	}
}

func TestNamespaceRootMadeByItself(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithNamespace("x/y"))
		made := create(t, c, "/n", "")
		if made.Path != "/n" || c.FullPath(made.Path) != "/x/y/n" {
			t.Fatalf("made %q", made.Path)
		}
		if n := node(t, srv, "/x/y"); n.Mode != "container" {
			t.Fatalf("%+v", n)
		}
		// But no parents within it.
		_, err := c.Create(t.Context(), "/a/n", nil)
		if !errors.Is(err, framework.ErrNoNode) {
			t.Fatal(err)
		}
	})
}
