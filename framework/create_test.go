package framework_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

func TestModes(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/p", "")
		for _, tc := range []struct {
			mode framework.Mode
			opts []framework.CreateOption
			path string
			kind string
		}{
			{framework.Persistent, nil, "/p/a", "persistent"},
			{framework.Ephemeral, nil, "/p/b", "ephemeral"},
			{framework.PersistentSequential, nil, "/p/c0000000002", "persistent"},
			{framework.EphemeralSequential, nil, "/p/d0000000003", "ephemeral"},
			{framework.Container, nil, "/p/e", "container"},
			{framework.Persistent, []framework.CreateOption{framework.TTL(time.Minute)}, "/p/f", "ttl"},
			{framework.PersistentSequential, []framework.CreateOption{framework.TTL(time.Minute)}, "/p/g0000000006", "ttl"},
		} {
			name := "/p/" + tc.path[3:4]
			made := create(t, c, name, "data", append(tc.opts, framework.WithMode(tc.mode))...)
			node, ok := srv.Node(tc.path)
			if !ok || made.Path != tc.path || node.Mode != tc.kind || string(node.Data) != "data" {
				t.Fatalf("%v: made %q, node %+v", tc.mode, made.Path, node)
			}
			if made.Stat.Czxid != node.Czxid || made.Stat.EphemeralOwner != node.Owner || made.Stat.DataLength != 4 ||
				made.Stat.Version != 0 || made.Session != c.Session() || !made.Stat.Created.Equal(node.Created) {
				t.Fatalf("%v: %+v, node %+v", tc.mode, made, node)
			}
		}
		// A sequential node may be all number, also right below the namespace.
		ns, _ := c.Namespace("/p")
		if made := create(t, ns, "/", "", framework.WithMode(framework.PersistentSequential)); made.Path != "/0000000007" {
			t.Fatalf("made %q", made.Path)
		}
		if made := create(t, c, "/p/", "", framework.WithMode(framework.EphemeralSequential), framework.Protected()); !strings.HasSuffix(made.Path, "-0000000008") {
			t.Fatalf("made %q", made.Path)
		}
		results, err := ns.Multi(t.Context(), framework.CreateOp("/", nil, framework.PersistentSequential))
		if err != nil || results[0].Path != "/0000000009" {
			t.Fatalf("%+v, %v", results, err)
		}
	})
}

func TestCreateRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		for name, tc := range map[string]struct {
			path string
			opts []framework.CreateOption
			want error
			text string
		}{
			"path":              {"a", nil, framework.ErrInvalidPath, `"a"`},
			"trailing slash":    {"/a/", nil, framework.ErrInvalidPath, `"/a/"`},
			"mode":              {"/a", []framework.CreateOption{framework.WithMode(99)}, framework.ErrInvalidOption, "Mode(99)"},
			"TTL mode":          {"/a", []framework.CreateOption{framework.TTL(time.Second), framework.WithMode(framework.Ephemeral)}, framework.ErrInvalidOption, "Ephemeral"},
			"TTL zero":          {"/a", []framework.CreateOption{framework.TTL(0)}, framework.ErrInvalidOption, "0s"},
			"TTL negative":      {"/a", []framework.CreateOption{framework.TTL(-time.Second)}, framework.ErrInvalidOption, "-1s"},
			"TTL too long":      {"/a", []framework.CreateOption{framework.TTL(1 << 62)}, framework.ErrInvalidOption, "TTL"},
			"OrSet sequential":  {"/a", []framework.CreateOption{framework.OrSet(), framework.WithMode(framework.PersistentSequential)}, framework.ErrInvalidOption, "OrSet"},
			"empty ACL":         {"/a", []framework.CreateOption{framework.WithACL(noACL...)}, framework.ErrInvalidACL, "empty"},
			"protected root":    {"/", []framework.CreateOption{framework.Protected()}, framework.ErrInvalidPath, `"/"`},
			"protected nowhere": {"", []framework.CreateOption{framework.Protected()}, framework.ErrInvalidPath, `""`},
		} {
			_, err := c.Create(t.Context(), tc.path, nil, tc.opts...)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s: %v, want %v with %s", name, err, tc.want, tc.text)
			}
		}
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

var noACL = []framework.ACL{}

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

func node(t *testing.T, srv *embedded.Server, path string) embedded.NodeInfo {
	t.Helper()
	n, ok := srv.Node(path)
	if !ok {
		t.Fatalf("no node %s", path)
	}
	return n
}

// TestProtectedCancelled: given up at any step, it leaves no node, even
// though the request may still be carried out.
func TestProtectedCancelled(t *testing.T) {
	for _, mode := range []framework.Mode{framework.EphemeralSequential, framework.Persistent} {
		for _, op := range []string{"create2", "getChildren2", "createContainer"} {
			for _, parent := range []bool{true, false} {
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
						if op == "createContainer" && parent {
							cancel() // there is nothing to hold
						} else {
							<-came
							cancel()
						}
						if err := <-finished; err != nil && !errors.Is(err, context.Canceled) {
							t.Fatal(err)
						} else if err == nil {
							t.Skip("it was faster")
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

// TestSiblingsNotAllowed: who may create but not list gets an error, and the
// node goes.
func TestSiblingsNotAllowed(t *testing.T) {
	for _, opts := range [][]framework.CreateOption{{framework.Protected()}, nil} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv)
			create(t, c, "/p", "", framework.WithACL(framework.WorldACL(framework.PermCreate|framework.PermDelete)...))
			var siblings []string
			_, err := c.Create(t.Context(), "/p/n", nil, append(opts, framework.Siblings(&siblings))...)
			if !errors.Is(err, framework.ErrNoAuth) {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := node(t, srv, "/p").Children; len(got) != 0 {
				t.Fatalf("left behind: %q", got)
			}
		})
	}
}

// TestSiblingsLost: only the list is asked for again.
func TestSiblingsLost(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/p", "")
		first := true
		srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Op == "getChildren2" && first {
				first = false
				time.AfterFunc(time.Second, func() { srv.DropConnections() })
				return embedded.Drop
			}
			return embedded.Pass
		})
		log := logRequests(srv)
		var siblings []string
		made := create(t, c, "/p/n", "", framework.WithMode(framework.PersistentSequential), framework.Siblings(&siblings))
		if made.Path != "/p/n0000000000" || len(siblings) != 1 || log.count("create2") != 1 {
			t.Fatalf("made %q, siblings %q, requests %v", made.Path, siblings, log.ops())
		}
	})
}

// TestSequentialLostReply: unprotected, it must not be tried again.
func TestSequentialLostReply(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		srv.LoseReply(isOp("create2"))
		_, err := c.Create(t.Context(), "/n", nil, framework.WithMode(framework.PersistentSequential))
		if !framework.IsUnknown(err) || framework.IsRetryable(err) || !errors.Is(err, framework.ErrConnectionLoss) {
			t.Fatal(err)
		}
		if n := log.count("create2"); n != 1 {
			t.Fatalf("%d tries", n)
		}
	})
}

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

func TestOrSet(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "a", framework.OrSet())
		made := create(t, c, "/n", "b", framework.OrSet())
		if made.Stat.Version != 1 || string(node(t, srv, "/n").Data) != "b" {
			t.Fatalf("%+v", made)
		}
		srv.LoseReply(isOp("setData"))
		made = create(t, c, "/n", "c", framework.OrSet(), framework.Idempotent())
		if string(node(t, srv, "/n").Data) != "c" {
			t.Fatalf("%+v", made)
		}
	})
}

// TestOrSetAgainstDeleters: several set the node, others delete it; nobody
// fails.
func TestOrSetAgainstDeleters(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		clients := []*framework.Client{connect(t, srv), connect(t, srv), connect(t, srv)}
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				c := clients[i%3]
				for j := range 50 {
					if i < 6 {
						if _, err := c.Create(context.Background(), "/n", []byte("x"), framework.OrSet()); err != nil {
							t.Errorf("create: %v", err)
						}
					} else if err := c.Delete(context.Background(), "/n", framework.AnyVersion); err != nil && !errors.Is(err, framework.ErrNoNode) {
						t.Errorf("delete: %v", err)
					}
					if j%7 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestIdempotentCreate(t *testing.T) {
	for name, tc := range map[string]struct {
		mode     framework.Mode
		meddle   func(srv *embedded.Server, other *framework.Client)
		want     error
		leftover string
	}{
		"own":           {framework.Persistent, nil, nil, "x"},
		"own ephemeral": {framework.Ephemeral, nil, nil, "x"},
		"changed": {framework.Persistent, func(_ *embedded.Server, other *framework.Client) {
			_, _ = other.Set(context.Background(), "/n", []byte("x"), 0)
		}, framework.ErrNodeExists, "x"},
		"another's": {framework.Persistent, func(_ *embedded.Server, other *framework.Client) {
			_ = other.Delete(context.Background(), "/n", 0)
			_, _ = other.Create(context.Background(), "/n", []byte("y"))
		}, framework.ErrNodeExists, "y"},
		"deleted": {framework.Persistent, func(_ *embedded.Server, other *framework.Client) {
			_ = other.Delete(context.Background(), "/n", 0)
		}, nil, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c, other := connect(t, srv), connect(t, srv)
				lost := srv.LoseReply(isOp("create2"))
				if tc.meddle != nil {
					srv.Silence(c.Session().ID())
				}
				finished := make(chan error, 1)
				var made framework.Created
				go func() {
					var err error
					made, err = c.Create(context.Background(), "/n", []byte("x"), framework.Idempotent(), framework.WithMode(tc.mode))
					finished <- err
				}()
				if tc.meddle != nil {
					// The retry has to wait until another was there.
					srv.Refuse(true)
					srv.Unsilence()
					<-lost
					tc.meddle(srv, other)
					srv.Refuse(false)
				}
				if err := <-finished; !errors.Is(err, tc.want) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
				n := node(t, srv, "/n")
				if string(n.Data) != tc.leftover {
					t.Fatalf("data %q", n.Data)
				}
				if tc.want == nil && (made.Path != "/n" || made.Stat.Czxid != n.Czxid) {
					t.Fatalf("made %+v", made)
				}
			})
		})
	}
}

// TestIdempotentCreateOfAnother: without a lost reply, an equal node that is
// there already is not one's own.
func TestIdempotentCreateOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "x")
		_, err := c.Create(t.Context(), "/n", []byte("x"), framework.Idempotent())
		if !errors.Is(err, framework.ErrNodeExists) || framework.IsUnknown(err) {
			t.Fatal(err)
		}
	})
}
