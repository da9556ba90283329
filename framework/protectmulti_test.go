package framework_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// twoNodes are the parts of a multi that makes two nodes, with different
// parents, and counts in /n how often it was executed.
func twoNodes() []framework.Op {
	return []framework.Op{
		framework.SetOp("/n", []byte("x"), framework.AnyVersion),
		framework.CreateOp("/p/lease-", []byte("y"), framework.EphemeralSequential).Protected(),
		framework.CreateOp("/q/box", nil, framework.Container).Protected(),
	}
}

var multiMade = []*regexp.Regexp{
	1: regexp.MustCompile(`^/p/_c_[0-9a-f-]{36}-lease-[0-9]{10}$`),
	2: regexp.MustCompile(`^/q/_c_[0-9a-f-]{36}-box$`),
}

// inMulti connects a client with a namespace in which the parents are there.
func inMulti(t *testing.T, srv *embedded.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	c := connect(t, srv, append(opts, framework.WithNamespace("ns"))...)
	for _, path := range []string{"/n", "/p", "/q"} {
		create(t, c, path, "")
	}
	return c
}

// childrenOf counts the children of both parents.
func childrenOf(t *testing.T, srv *embedded.Server) (n int) {
	t.Helper()
	for _, path := range []string{"/ns/p", "/ns/q"} {
		n += len(node(t, srv, path).Children)
	}
	return n
}

// TestProtectedMulti is executed once, whatever the first try ran into.
func TestProtectedMulti(t *testing.T) {
	for name, fault := range map[string]func(srv *embedded.Server){
		"none":               func(*embedded.Server) {},
		"cut before":         func(srv *embedded.Server) { srv.CutBefore(isOp("multi")) },
		"reply lost":         func(srv *embedded.Server) { srv.LoseReply(isOp("multi")) },
		"lost, then sync":    func(srv *embedded.Server) { srv.LoseReply(isOp("multi")); srv.CutBefore(isOp("sync")) },
		"lost, then list":    func(srv *embedded.Server) { srv.LoseReply(isOp("multi")); srv.LoseReply(isOp("getChildren2")) },
		"cut twice":          func(srv *embedded.Server) { srv.CutBefore(isOp("multi")); srv.CutBefore(isOp("multi")) },
		"cut, then lost":     func(srv *embedded.Server) { srv.CutBefore(isOp("multi")); srv.LoseReply(isOp("multi")) },
		"silent for a while": func(srv *embedded.Server) { silentReply(srv, "multi") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := inMulti(t, srv)
				fault(srv)
				results, err := c.Multi(t.Context(), twoNodes()...)
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range multiMade {
					if want != nil && !want.MatchString(results[i].Path) {
						t.Errorf("result %d is %+v", i, results[i])
					}
				}
				if n := childrenOf(t, srv); n != 2 {
					t.Errorf("%d nodes were made", n)
				}
				if v := node(t, srv, "/ns/n").Version; v != 1 {
					t.Errorf("it was executed %d times", v)
				}
				if n := node(t, srv, "/ns"+results[1].Path); n.Owner != c.Session().ID() || string(n.Data) != "y" {
					t.Errorf("%+v", n)
				}
				remove(t, c, results[2].Path)
			})
		})
	}
}

// TestProtectedMultiMarks: each execution of an Op, and each part, has a mark
// of its own, also where the server's counter tells nothing apart.
func TestProtectedMultiMarks(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := inMulti(t, srv)
		op := framework.CreateOp("/p/same", nil, framework.Ephemeral).Protected()
		for range 2 {
			if _, err := c.Multi(t.Context(), op, op, op); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(node(t, srv, "/ns/p").Children); n != 6 {
			t.Fatalf("%d nodes", n)
		}
	})
}

// TestFailedProtectedMultiLeavesNothing however it fails after it was sent.
func TestFailedProtectedMultiLeavesNothing(t *testing.T) {
	once := framework.WithRetry(retry.OneTime(time.Millisecond))
	cancelled := func(t *testing.T, c *framework.Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Multi(ctx, twoNodes()...)
		return err
	}
	for name, fail := range map[string]func(t *testing.T, srv *embedded.Server, c *framework.Client) error{
		"cancelled, executed later": func(t *testing.T, srv *embedded.Server, c *framework.Client) error {
			sent, release := holdOp(srv, "multi")
			time.AfterFunc(2*time.Second, release)
			err := cancelled(t, c)
			<-sent
			return err
		},
		"cancelled, executed": func(t *testing.T, srv *embedded.Server, c *framework.Client) error {
			silentReply(srv, "multi")
			return cancelled(t, c)
		},
		"retries exhausted": func(t *testing.T, srv *embedded.Server, c *framework.Client) error {
			srv.LoseReply(func(r embedded.Request) bool {
				if r.Op == "multi" {
					srv.Refuse(true)
					time.AfterFunc(sessionTimeout/2, func() { srv.Refuse(false) })
				}
				return r.Op == "multi"
			})
			_, err := c.Multi(t.Context(), twoNodes()...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := inMulti(t, srv, once, framework.WithConnectionTimeout(time.Second))
				if err := fail(t, srv, c); !framework.IsUnknown(err) {
					t.Fatalf("%v, want one of which the outcome is unknown", err)
				}
				time.Sleep(sessionTimeout)
				if v := node(t, srv, "/ns/n").Version; v != 1 {
					t.Errorf("it was executed %d times", v)
				}
				if n := childrenOf(t, srv); n != 0 {
					t.Errorf("%d nodes are left", n)
				}
				if c.Session() == nil {
					t.Error("the session has ended, and proves nothing")
				}
			})
		})
	}
}

// TestProtectedMultiEndsWithItsSession: in the next session nothing tells
// whether it was executed.
func TestProtectedMultiEndsWithItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := inMulti(t, srv)
		old := c.Session()
		srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "multi" && r.Session == old.ID() {
				srv.Silence(r.Session)
				return embedded.Drop
			}
			return embedded.Pass
		})
		_, err := c.Multi(t.Context(), twoNodes()...)
		if !errors.Is(err, framework.ErrSessionLost) || !framework.IsUnknown(err) || framework.IsRetryable(err) {
			t.Fatal(err)
		}
		if v := node(t, srv, "/ns/n").Version; v != 1 {
			t.Errorf("it was executed %d times", v)
		}
		time.Sleep(2 * sessionTimeout)
		if n := childrenOf(t, srv); n != 0 {
			t.Errorf("%d nodes are left", n)
		}
		srv.Unsilence()
	})
}

// TestProtectedMultiRefused: an answer is no doubt, and nothing is looked for.
func TestProtectedMultiRefused(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := inMulti(t, srv)
		srv.CutBefore(isOp("multi"))
		log := logRequests(srv)
		_, err := c.Multi(t.Context(), append(twoNodes(), framework.CheckOp("/none", 0))...)
		if !errors.Is(err, framework.ErrNoNode) || framework.IsUnknown(err) {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := log.count("sync"); n != 2 { // one for each parent, after the cut
			t.Errorf("requests %v", log.ops())
		}
	})
}

// TestOpIn binds a multi to a session, and refuses what cannot be.
func TestOpIn(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := inMulti(t, srv)
		old := c.Session()
		set := framework.SetOp("/n", nil, framework.AnyVersion)
		if _, err := c.Multi(t.Context(), set.In(old), set.In(old), set); err != nil {
			t.Fatal(err)
		}
		if err := srv.ExpireSession(old.ID()); err != nil {
			t.Fatal(err)
		}
		<-old.Context().Done()
		if err := c.WaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
		log := logRequests(srv)
		for text, ops := range map[string][]framework.Op{
			"session lost":    {set, set.In(old)},
			"nil session":     {set.In(nil)},
			"another session": {set.In(old), set.In(c.Session())},
			"protected set":   {set.Protected()},
			"the parents of":  {set.WithParents()},
			"no name":         {framework.CreateOp("/", nil, framework.Persistent).Protected().For(c.Root())},
		} {
			_, err := c.Multi(t.Context(), ops...)
			if err == nil || !strings.Contains(err.Error(), text) || framework.IsRetryable(err) {
				t.Errorf("%v, want %s", err, text)
			}
			if strings.Contains(text, "session ") && !errors.Is(err, framework.ErrSessionLost) {
				t.Errorf("%v is no lost session", err)
			}
		}
		synctest.Wait()
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

// TestMultiWithParents makes them, whatever happens on the way, as containers.
func TestMultiWithParents(t *testing.T) {
	op := framework.CreateOp("/a/b/n", nil, framework.Ephemeral).Protected().WithParents()
	for name, fault := range map[string]func(srv *embedded.Server){
		"none":         func(*embedded.Server) {},
		"cut":          func(srv *embedded.Server) { srv.CutBefore(isOp("createContainer")) },
		"parents lost": func(srv *embedded.Server) { srv.LoseReply(isOp("createContainer")) },
		"reply lost":   func(srv *embedded.Server) { srv.LoseReply(isOp("multi")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv, framework.WithNamespace("ns"))
				fault(srv)
				results, err := c.Multi(t.Context(), op)
				if err != nil {
					t.Fatal(err)
				}
				node(t, srv, "/ns"+results[0].Path)
				for _, path := range []string{"/ns", "/ns/a", "/ns/a/b"} {
					if n := node(t, srv, path); n.Mode != "container" {
						t.Errorf("%s is %s", path, n.Mode)
					}
				}
			})
		})
	}
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		_, err := c.Multi(t.Context(), op, framework.CheckOp("/none", 0))
		if !errors.Is(err, framework.ErrNoNode) || !strings.Contains(err.Error(), "operation 1") {
			t.Errorf("%v does not blame the part without parents to make", err)
		}
		if _, err := c.Multi(t.Context(), framework.CreateOp("/x/y", nil, framework.Persistent)); !errors.Is(err, framework.ErrNoNode) {
			t.Errorf("without: %v", err)
		}
	})
}
