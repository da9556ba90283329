package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/wire"
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

// TestSiblingsNotAllowed: who may create but not list gets an error, and the
// protected node goes.
func TestSiblingsNotAllowed(t *testing.T) {
	for _, opts := range [][]framework.CreateOption{{framework.Protected()}, {framework.Protected(), framework.WithMode(framework.Ephemeral)}} {
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

// TestSiblingsOnEveryPath: however a create succeeds, the names are there.
func TestSiblingsOnEveryPath(t *testing.T) {
	for name, opts := range map[string][]framework.CreateOption{
		"plain": nil, "or set": {framework.OrSet()}, "idempotent": {framework.Idempotent()}, "protected": {framework.Protected()},
	} {
		for _, lose := range []bool{false, true} {
			t.Run(fmt.Sprint(name, lose), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *embedded.Server) {
					c := connect(t, srv)
					if name == "or set" {
						create(t, c, "/n", "old")
					}
					if lose && name == "plain" {
						return
					}
					if lose {
						srv.LoseReply(isOp("create2"))
					}
					var names []string
					made := create(t, c, "/n", "x", append(opts, framework.Siblings(&names))...)
					if len(names) != 2 || !slices.Contains(names, made.Path[1:]) {
						t.Fatalf("%q", names)
					}
				})
			})
		}
	}
}

// TestSiblingsFail: the node of a create whose list fails stays, unless it is
// protected, by which its maker asked for it to be removed.
func TestSiblingsFail(t *testing.T) {
	for _, opts := range [][]framework.CreateOption{nil, {framework.Protected()}} {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c := connect(t, srv)
			var used atomic.Bool
			srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if r.Op == "getChildren2" && used.CompareAndSwap(false, true) {
					return embedded.Answer(int32(wire.CodeNoAuth))
				}
				return embedded.Pass
			})
			var names []string
			_, err := c.Create(t.Context(), "/n", nil, append(opts, framework.Siblings(&names))...)
			if !errors.Is(err, framework.ErrNoAuth) {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			left := len(node(t, srv, "/").Children) - 1
			if want := 1 - len(opts); left != want || framework.IsUnknown(err) != (want == 1) {
				t.Fatalf("%d nodes left, want %d; unknown %v", left, want, framework.IsUnknown(err))
			}
		})
	}
}

// The create was answered, the list of siblings was not, and then the parent is
// removed, and the node with it.
func TestParentRemovedBeforeSiblingsAreListed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, other, ctx := connect(t, srv), connect(t, srv), context.Background()
		if _, err := c.Create(ctx, "/locks/a", nil, framework.WithParents()); err != nil {
			t.Fatal(err)
		}
		id, lists := c.Session().ID(), 0
		srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Session != id || r.Op != "getChildren2" {
				return embedded.Pass
			}
			switch lists++; lists {
			case 1:
				time.Sleep(10 * time.Millisecond) // the create's own reply arrives
				return embedded.Cut
			case 2:
				_ = other.Delete(ctx, "/locks", framework.AnyVersion, framework.WithChildren())
			}
			return embedded.Pass
		})
		var names []string
		made, err := c.Create(ctx, "/locks/a/lock-", nil, framework.WithMode(framework.EphemeralSequential),
			framework.Protected(), framework.WithParents(), framework.Siblings(&names))
		if err != nil {
			t.Fatal(err)
		}
		if _, name := framework.SplitPath(made.Path); len(names) != 1 || names[0] != name {
			t.Errorf("siblings %q, want %q alone", names, name)
		}
	})
}

// panicking is a hook whose first call for an operation panics.
type panicking struct {
	op   string
	once sync.Once
}

func (h *panicking) OnOperation(_ context.Context, info framework.OperationInfo) {
	if info.Op == h.op {
		h.once.Do(func() { panic("from a hook") })
	}
}

func TestPanicInHookLeavesNoProtectedNode(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithHooks(&panicking{op: "create2"}))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the hook was not called")
				}
			}()
			_, _ = c.Create(context.Background(), "/n-", nil,
				framework.WithMode(framework.EphemeralSequential), framework.Protected())
		}()
		time.Sleep(time.Second)
		if n := srv.Sessions()[0].Ephemerals; len(n) != 0 {
			t.Errorf("left behind: %v", n)
		}
	})
}

// What lies above the chroot has no path of its own for a provider.
func TestACLAboveTheChroot(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		var mu sync.Mutex
		asked := map[string]bool{}
		provider := func(path string) []framework.ACL {
			mu.Lock()
			defer mu.Unlock()
			asked[path] = true
			return framework.WorldACL(framework.PermAll)
		}
		c := connect(t, chrooted{srv, "/apps/web"}, framework.WithACLProvider(provider))
		if _, err := c.Create(context.Background(), "/n", nil, framework.WithParents()); err != nil {
			t.Fatal(err)
		}
		if asked["/apps"] || !asked["/"] || !asked["/n"] {
			t.Errorf("asked for %v, want / and /n", asked)
		}
	})
}
