package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// lineageOf tells ancestors in short.
func lineageOf(nodes []framework.Ancestor) string {
	var all []string
	for _, n := range nodes {
		all = append(all, fmt.Sprintf("%s=%s(%d)", n.Path, n.Data, n.Stat.NumChildren))
	}
	return strings.Join(all, " ")
}

func TestAncestors(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, owner := connect(t, srv), connect(t, srv, framework.WithAuth("digest", []byte("ann:pw")))
		create(t, c, "/app", "top")
		create(t, owner, "/app/closed", "secret", framework.WithACL(framework.DigestACL(framework.PermAll, "ann", "pw")...))
		create(t, owner, "/app/closed/n", "x")
		inside, err := c.Namespace("/app/closed")
		if err != nil {
			t.Fatal(err)
		}
		log := logRequests(srv)
		for path, want := range map[string]string{
			"/n":     "/app/closed/n=x(0) /app=top(1)",
			"/n/a/b": "/app/closed/n=x(0) /app=top(1)",
			"/":      "/app=top(1)",
		} {
			got, err := inside.Ancestors(t.Context(), path)
			if err != nil || lineageOf(got) != want {
				t.Errorf("%s: %s, %v, want %s", path, lineageOf(got), err, want)
			}
		}
		if n := log.count("getData"); n != 3+5+2 {
			t.Errorf("%d reads", n)
		}
		if got, err := c.Ancestors(t.Context(), "/"); err != nil || len(got) != 0 {
			t.Errorf("of the root: %v, %v", got, err)
		}
		if _, err := c.Ancestors(t.Context(), "x"); !errors.Is(err, framework.ErrInvalidPath) {
			t.Error(err)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Ancestors(done, "/app"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A chroot hides what lies above it from the client's other calls.
func TestAncestorsAboveChroot(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		create(t, connect(t, srv), "/top/app", "x", framework.WithParents())
		c := connect(t, chrooted{srv, "/top/app"})
		got, err := c.Ancestors(t.Context(), "/n")
		if err != nil || lineageOf(got) != "/top/app=x(0) /top=(1)" {
			t.Errorf("%s, %v", lineageOf(got), err)
		}
	})
}

// Whatever becomes of the replies, the reads that go with a create see what it
// has made, and the list of siblings is complete.
func TestCreateWithAncestors(t *testing.T) {
	for _, lost := range []string{"", "create2", "getData", "getChildren2"} {
		for _, listed := range []bool{true, false} {
			if lost == "getChildren2" && !listed {
				continue
			}
			t.Run(fmt.Sprint(lost, listed), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *embedded.Server) {
					c := connect(t, srv)
					if lost != "" {
						srv.LoseReply(isOp(lost))
					}
					var nodes []framework.Ancestor
					var names []string
					opts := []framework.CreateOption{
						framework.Protected(), framework.WithAncestors(&nodes),
						framework.WithLabelledParent("/a/b", []byte("label")),
					}
					if listed {
						opts = append(opts, framework.Siblings(&names))
					}
					create(t, c, "/a/b/c/n", "", opts...)
					if got := lineageOf(nodes); got != "/a/b/c=(1) /a/b=label(1) /a=(1)" {
						t.Error(got)
					}
					if listed != (len(names) == 1) {
						t.Errorf("siblings %q", names)
					}
				})
			})
		}
	}
}

// The reads take no round trip of their own: all is written at once.
func TestAncestorsGoAlong(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var writes atomic.Int32
		c := connect(t, srv, framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := srv.DialContext(ctx, network, address)
			return countedWrites{conn, &writes}, err
		}))
		create(t, c, "/a/b", "", framework.WithParents())
		writes.Store(0)
		log := logRequests(srv)
		var nodes []framework.Ancestor
		create(t, c, "/a/b/n", "", framework.WithAncestors(&nodes))
		if got, n := lineageOf(nodes), writes.Load(); got != "/a/b=(1) /a=(1)" || n != 1 {
			t.Errorf("%s by %d writes", got, n)
		}
		if got := strings.Join(log.ops(), " "); got != "create2 getData getData" {
			t.Error(got)
		}
	})
}

type countedWrites struct {
	net.Conn
	n *atomic.Int32
}

func (c countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// A labelled parent is data for a node that is made, and for no other.
func TestLabelledParent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := connect(t, srv).Namespace("/ns")
		if err != nil {
			t.Fatal(err)
		}
		create(t, c, "/a/b/n", "", framework.WithLabelledParent("/a", []byte("label")))
		create(t, c, "/a/b/m", "", framework.WithLabelledParent("/a/b", []byte("late")))
		create(t, c, "/c/n", "", framework.WithLabelledParent("/d", []byte("elsewhere")))
		for path, want := range map[string]string{"/ns": "", "/ns/a": "label", "/ns/a/b": "", "/ns/c": ""} {
			if n := node(t, srv, path); string(n.Data) != want || n.Mode != "container" {
				t.Errorf("%s: %+v, want %q", path, n, want)
			}
		}
		for _, path := range []string{"", "x", "/x/"} {
			_, err := c.Create(t.Context(), "/a/x", nil, framework.WithLabelledParent(path, nil))
			if !errors.Is(err, framework.ErrInvalidPath) {
				t.Errorf("%q: %v", path, err)
			}
		}
		if _, err := c.Create(t.Context(), "/a/x", nil, framework.WithAncestors(nil)); !errors.Is(err, framework.ErrInvalidOption) {
			t.Error(err)
		}
	})
}
