package framework_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

var protectedName = regexp.MustCompile(`^/p/_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-[0-9]{10}$`)

func protected(siblings *[]string) []framework.CreateOption {
	return []framework.CreateOption{
		framework.Protected(), framework.WithMode(framework.EphemeralSequential), framework.WithParents(), framework.Siblings(siblings),
	}
}

// TestProtected makes one node, whatever the first try ran into, and tells
// its right name, metadata and siblings.
func TestProtected(t *testing.T) {
	for name, fault := range map[string]func(srv *embedded.Server){
		"none":               func(*embedded.Server) {},
		"cut before":         func(srv *embedded.Server) { srv.CutBefore(isOp("create2")) },
		"reply lost":         func(srv *embedded.Server) { srv.LoseReply(isOp("create2")) },
		"list lost":          func(srv *embedded.Server) { srv.LoseReply(isOp("getChildren2")) },
		"list cut":           func(srv *embedded.Server) { srv.CutBefore(isOp("getChildren2")) },
		"parents lost":       func(srv *embedded.Server) { srv.LoseReply(isOp("createContainer")) },
		"parents cut":        func(srv *embedded.Server) { srv.CutBefore(isOp("createContainer")) },
		"lost, then sync":    func(srv *embedded.Server) { srv.LoseReply(isOp("create2")); srv.CutBefore(isOp("sync")) },
		"lost, then exists":  func(srv *embedded.Server) { srv.LoseReply(isOp("create2")); srv.LoseReply(isOp("exists")) },
		"lost twice":         func(srv *embedded.Server) { srv.LoseReply(isOp("create2")); srv.LoseReply(isOp("getChildren2")) },
		"silent for a while": func(srv *embedded.Server) { silentReply(srv, "create2") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv)
				if name != "parents lost" && name != "parents cut" {
					create(t, c, "/p", "")
				}
				fault(srv)
				log := logRequests(srv)
				var siblings []string
				made, err := c.Create(t.Context(), "/p/lock-", []byte("x"), protected(&siblings)...)
				if err != nil {
					t.Fatal(err)
				}
				parent, _ := srv.Node("/p")
				if len(parent.Children) != 1 || "/p/"+parent.Children[0] != made.Path || !protectedName.MatchString(made.Path) {
					t.Fatalf("made %q, children %q", made.Path, parent.Children)
				}
				node, _ := srv.Node(made.Path)
				if made.Stat.Czxid != node.Czxid || made.Stat.EphemeralOwner != c.Session().ID() || made.Session != c.Session() {
					t.Fatalf("made %+v, node %+v", made, node)
				}
				if !slices.Equal(siblings, parent.Children) {
					t.Fatalf("siblings %q", siblings)
				}
				if name == "reply lost" && !slices.Contains(log.ops(), "sync") {
					t.Fatal("looked for on a server that may lag behind")
				}
			})
		})
	}
}

// silentReply drops the first reply of an operation, and all after it on the
// same connection.
func silentReply(srv *embedded.Server, op string) {
	var used atomic.Bool
	srv.OnReply(func(r embedded.Request) embedded.Verdict {
		if r.Op != op || !used.CompareAndSwap(false, true) {
			return embedded.Pass
		}
		srv.Silence(r.Session)
		time.AfterFunc(time.Second, func() { srv.DropConnections(); srv.Unsilence() })
		return embedded.Drop
	})
}

// TestProtectedAcrossSessions: the session ends between the create and the
// retry. The old node is never adopted.
func TestProtectedAcrossSessions(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/p", "")
		old := c.Session()
		// The client believes the session lost while the server still has it,
		// and with it the node: the worst case.
		srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "create2" && r.Session == old.ID() {
				srv.Silence(r.Session)
				return embedded.Drop
			}
			return embedded.Pass
		})
		finished := make(chan framework.Created, 1)
		go func() {
			var siblings []string
			made, err := c.Create(context.Background(), "/p/lock-", nil, protected(&siblings)...)
			if err != nil {
				t.Error(err)
			}
			finished <- made
		}()
		<-old.Context().Done()
		if len(srv.Sessions()) == 0 {
			t.Fatal("the server gave up the session first")
		}
		made := <-finished
		if made.Session == old || made.Stat.EphemeralOwner == old.ID() || made.Stat.EphemeralOwner != c.Session().ID() {
			t.Fatalf("made %+v, the old session is %#x", made, old.ID())
		}
		if got := node(t, srv, "/p").Children; len(got) != 2 || got[0][:40] == got[1][:40] {
			t.Fatalf("children %q, want two with marks of their own", got)
		}
		srv.Unsilence()
		srv.Advance(sessionTimeout) // keeps the new session waiting for no more than a ping
		time.Sleep(2 * sessionTimeout)
		for _, name := range node(t, srv, "/p").Children {
			if owner := node(t, srv, "/p/"+name).Owner; owner == old.ID() {
				t.Fatalf("the old node %q is still there", name)
			}
		}
	})
}

// TestProtectedCancelled: given up at any step, it leaves no node, even
// though the request may still be carried out.
func TestProtectedCancelled(t *testing.T) {
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.Persistent} {
		for _, op := range []string{"create2", "getChildren2", "createContainer"} {
			for _, parent := range []bool{true, false} {
				if parent && op == "createContainer" {
					continue // is not sent
				}
				t.Run(fmt.Sprint(mode, op, parent), func(t *testing.T) {
					bubble(t, func(t *testing.T, srv *embedded.Server) {
						c := connect(t, srv)
						if parent {
							create(t, c, "/p", "")
						}
						came, release := holdOp(srv, op)
						ctx, cancel := context.WithCancel(t.Context())
						finished := make(chan error, 1)
						go func() {
							var siblings []string
							_, err := c.Create(ctx, "/p/lock-", nil, append(protected(&siblings), framework.WithMode(mode))...)
							finished <- err
						}()
						<-came
						cancel()
						if err := <-finished; !errors.Is(err, context.Canceled) {
							t.Fatalf("Create: %v, want that it was cancelled", err)
						}
						release()
						time.Sleep(time.Second)
						synctest.Wait()
						if n, ok := srv.Node("/p"); ok && len(n.Children) != 0 {
							t.Fatalf("left behind: %q", n.Children)
						}
						noWatches(t, srv, c)
					})
				})
			}
		}
	}
}

// TestProtectedRetriesExhausted: the node that the last try has made is
// removed once the server is back.
func TestProtectedRetriesExhausted(t *testing.T) {
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.PersistentSequential, framework.Ephemeral} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv, framework.WithRetry(retry.NTimes(1, time.Millisecond)), framework.WithConnectionTimeout(time.Second))
			create(t, c, "/p", "")
			srv.OnReply(func(r embedded.Request) embedded.Verdict {
				if r.Op == "create2" {
					srv.Refuse(true)
					return embedded.Cut
				}
				return embedded.Pass
			})
			_, err := c.Create(t.Context(), "/p/lock-", nil, framework.Protected(), framework.WithMode(mode))
			if !errors.Is(err, framework.ErrConnectionLoss) || !framework.IsUnknown(err) {
				t.Fatal(err)
			}
			if n := len(node(t, srv, "/p").Children); n != 1 {
				t.Fatalf("%d children, want the one whose reply was lost", n)
			}
			time.Sleep(3 * time.Second)
			srv.Refuse(false)
			time.Sleep(10 * time.Second)
			if got := node(t, srv, "/p").Children; len(got) != 0 {
				t.Fatalf("left behind: %q", got)
			}
		})
	}
}
