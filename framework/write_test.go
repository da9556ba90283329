package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

func TestReadsAndSets(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "a")
		create(t, c, "/n/c", "")
		stat, err := c.Set(t.Context(), "/n", []byte("bc"), 0)
		if err != nil || stat.Version != 1 || stat.DataLength != 2 {
			t.Fatalf("%+v, %v", stat, err)
		}
		data, got, err := c.Get(t.Context(), "/n")
		if err != nil || string(data) != "bc" || got != stat || stat.NumChildren != 1 {
			t.Fatalf("%q, %+v, %v", data, got, err)
		}
		names, got, err := c.Children(t.Context(), "/n")
		if err != nil || len(names) != 1 || names[0] != "c" || got != stat {
			t.Fatalf("%q, %+v, %v", names, got, err)
		}
		if got, err := c.Exists(t.Context(), "/n"); err != nil || got != stat {
			t.Fatalf("%+v, %v", got, err)
		}
		acl := framework.DigestACL(framework.PermRead|framework.PermAdmin, "ann", "pw")
		acl = append(acl, framework.WorldACL(framework.PermRead)...)
		if stat, err = c.SetACL(t.Context(), "/n", acl, 0); err != nil || stat.ACLVersion != 1 {
			t.Fatalf("%+v, %v", stat, err)
		}
		read, _, err := c.GetACL(t.Context(), "/n")
		if err != nil || len(read) != 2 || read[1] != acl[1] {
			t.Fatalf("%+v, %v", read, err)
		}
		if _, err := c.Set(t.Context(), "/n", nil, framework.AnyVersion); !errors.Is(err, framework.ErrNoAuth) {
			t.Fatal(err)
		}
	})
}

func TestIdempotentSet(t *testing.T) {
	for name, tc := range map[string]struct {
		version int32
		meddle  string
		want    error
	}{
		"own":       {0, "", nil},
		"any":       {framework.AnyVersion, "", nil},
		"another's": {0, "y", framework.ErrBadVersion},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c, other := connect(t, srv), connect(t, srv)
				create(t, c, "/n", "")
				srv.OnReply(onceCut("setData", func() {
					if tc.meddle != "" {
						set(t, other, "/n", tc.meddle)
					}
				}))
				stat, err := c.Set(t.Context(), "/n", []byte("x"), tc.version, framework.Idempotent())
				if !errors.Is(err, tc.want) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
				if err == nil && (stat.Version < 1 || string(node(t, srv, "/n").Data) != "x") {
					t.Fatalf("%+v", stat)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		srv.LoseReply(isOp("setData"))
		if _, err := c.Set(t.Context(), "/n", nil, 0); !errors.Is(err, framework.ErrBadVersion) || !framework.IsUnknown(err) {
			t.Fatalf("without the option: %v", err)
		}
		if _, err := c.Set(t.Context(), "/n", nil, 0, framework.Idempotent()); !errors.Is(err, framework.ErrBadVersion) || framework.IsUnknown(err) {
			t.Fatalf("without a lost reply: %v", err)
		}
	})
}

func TestDelete(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		if err := c.Delete(t.Context(), "/n", 0); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), "/n", 0, framework.Idempotent()); !errors.Is(err, framework.ErrNoNode) {
			t.Fatalf("not one's own doing: %v", err)
		}
		create(t, c, "/n", "")
		srv.LoseReply(isOp("delete"))
		if err := c.Delete(t.Context(), "/n", 0, framework.Idempotent()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGuaranteedDelete goes on after its error, over a reconnect.
func TestGuaranteedDelete(t *testing.T) {
	short := framework.WithRetry(retry.OneTime(time.Millisecond))
	for name, call := range map[string]func(t *testing.T, c *framework.Client, path string) error{
		"retries exhausted": func(t *testing.T, c *framework.Client, path string) error {
			return c.Delete(t.Context(), path, framework.AnyVersion, framework.Guaranteed())
		},
		"cancelled": func(t *testing.T, c *framework.Client, path string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return c.Delete(ctx, path, framework.AnyVersion, framework.Guaranteed())
		},
		"done before": func(t *testing.T, c *framework.Client, path string) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return c.Delete(ctx, path, framework.AnyVersion, framework.Guaranteed())
		},
		"with children": func(t *testing.T, c *framework.Client, path string) error {
			return c.Delete(t.Context(), path, framework.AnyVersion, framework.Guaranteed(), framework.WithChildren())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *embedded.Server) {
				c := connect(t, srv, short, framework.WithConnectionTimeout(time.Second))
				create(t, c, "/n", "")
				if name == "with children" {
					create(t, c, "/n/a", "")
				}
				log := logRequests(srv)
				srv.Refuse(true)
				srv.DropConnections()
				synctest.Wait()
				if err := call(t, c, "/n"); err == nil {
					t.Fatal("no error")
				}
				time.Sleep(3 * time.Second)
				srv.Refuse(false)
				time.Sleep(20 * time.Second)
				if _, ok := srv.Node("/n"); ok {
					t.Fatal("the node is still there")
				}
				log.reset()
				time.Sleep(time.Minute)
				if ops := log.ops(); len(ops) != 0 {
					t.Fatalf("it does not end: %v", ops)
				}
			})
		})
	}
}

// TestGuaranteedDeleteEnds where there is nothing left to do.
func TestGuaranteedDeleteEnds(t *testing.T) {
	away := func(t *testing.T, srv *embedded.Server, opts ...framework.DeleteOption) (*framework.Client, *requests) {
		c := connect(t, srv, framework.WithRetry(retry.OneTime(time.Millisecond)), framework.WithConnectionTimeout(time.Second))
		create(t, c, "/n", "")
		srv.Refuse(true)
		srv.DropConnections()
		synctest.Wait()
		if len(opts) == 0 {
			opts = []framework.DeleteOption{framework.InSession(c.Session())}
		}
		err := c.Delete(t.Context(), "/n", framework.AnyVersion, append(opts, framework.Guaranteed())...)
		if !errors.Is(err, framework.ErrConnectionLoss) {
			t.Fatal(err)
		}
		return c, logRequests(srv)
	}
	t.Run("session", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c, log := away(t, srv)
			time.Sleep(2 * sessionTimeout)
			srv.Refuse(false)
			time.Sleep(time.Minute)
			if _, ok := srv.Node("/n"); !ok || log.count("delete") != 0 || !c.State().IsConnected() {
				t.Fatalf("requests %v", log.ops())
			}
		})
	})
	t.Run("no node", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			_, log := away(t, srv, framework.Guaranteed())
			srv.Refuse(false)
			remove(t, connect(t, srv), "/n")
			time.Sleep(time.Minute)
			if n := log.count("delete"); n > 2 {
				t.Fatalf("%d deletes", n)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			_, log := away(t, srv, framework.Guaranteed())
			srv.OnRequest(func(r embedded.Request) embedded.Verdict {
				if r.Op == "delete" {
					return embedded.Answer(-102)
				}
				return embedded.Pass
			})
			srv.Refuse(false)
			time.Sleep(time.Minute)
			if n := log.count("delete"); n != 1 {
				t.Fatalf("%d deletes", n)
			}
		})
	})
	t.Run("close", func(t *testing.T) {
		bubble(t, func(t *testing.T, srv *embedded.Server) {
			c, _ := away(t, srv, framework.Guaranteed())
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestDeleteWithChildren(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		for _, path := range []string{"/n/a/x", "/n/a/y", "/n/b", "/n/c/d/e/f"} {
			create(t, c, path, "", framework.WithParents())
		}
		srv.LoseReply(isOp("delete"))
		if err := c.Delete(t.Context(), "/n", framework.AnyVersion, framework.WithChildren(), framework.Idempotent()); err != nil {
			t.Fatal(err)
		}
		if _, ok := srv.Node("/n"); ok {
			t.Fatal(srv.Dump())
		}
	})
}

// TestDeleteWithChildrenRaces against those who add and remove nodes.
func TestDeleteWithChildrenRaces(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		deleters := []*framework.Client{connect(t, srv), connect(t, srv)}
		creator := connect(t, srv)
		for i := range 40 {
			create(t, creator, fmt.Sprintf("/n/%d/x", i), "", framework.WithParents())
		}
		var wg sync.WaitGroup
		gone := make(chan error, 2)
		for _, c := range deleters {
			wg.Go(func() {
				gone <- c.Delete(context.Background(), "/n", framework.AnyVersion, framework.WithChildren())
			})
		}
		wg.Go(func() {
			for i := range 60 {
				_, err := creator.Create(context.Background(), fmt.Sprintf("/n/new%d", i), nil)
				if err != nil && !errors.Is(err, framework.ErrNoNode) {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		a, b := <-gone, <-gone
		for _, err := range []error{a, b} {
			if err != nil && !errors.Is(err, framework.ErrNoNode) {
				t.Fatal(err)
			}
		}
		if a != nil && b != nil {
			t.Fatalf("nobody deleted it: %v, %v", a, b)
		}
	})
}

// TestRefusedOptions: what an option cannot mean is refused, and nothing is
// sent. A session that is not there is none that goes on.
func TestRefusedOptions(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		log := logRequests(srv)
		create := func(opts ...framework.CreateOption) error {
			_, err := c.Create(t.Context(), "/m", nil, opts...)
			return err
		}
		set := func(opts ...framework.SetOption) error {
			_, err := c.Set(t.Context(), "/n", nil, 0, opts...)
			return err
		}
		remove := func(opts ...framework.DeleteOption) error { return c.Delete(t.Context(), "/n", 0, opts...) }
		none := framework.InSession(nil)
		for name, err := range map[string]error{"create": create(none), "set": set(none), "delete": remove(none, framework.Guaranteed())} {
			if !errors.Is(err, framework.ErrSessionLost) || framework.IsRetryable(err) {
				t.Errorf("%s in no session: %v", name, err)
			}
		}
		for text, err := range map[string]error{
			"option 0 is nil":  create(nil),
			"option 1 is nil":  create(framework.Protected(), nil),
			"option 0 is nil ": set(nil),
			"option 1 is nil ": remove(framework.WithChildren(), nil),
			"Siblings(nil)":    create(framework.Siblings(nil)),
		} {
			if !errors.Is(err, framework.ErrInvalidOption) || !strings.Contains(err.Error(), strings.TrimSpace(text)) {
				t.Errorf("%v, want %s", err, text)
			}
		}
		if err := create(framework.WithACL()); !errors.Is(err, framework.ErrInvalidACL) {
			t.Errorf("an empty ACL: %v", err)
		}
		synctest.Wait()
		if ops := log.ops(); len(ops) != 0 {
			t.Fatalf("requests %v", ops)
		}
	})
}

// A context may end because another client was closed.
func TestGuaranteedDeleteGoesOnAfterForeignCause(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		if _, err := c.Create(context.Background(), "/n", nil); err != nil {
			t.Fatal(err)
		}
		srv.DropConnections()
		srv.Refuse(true)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(framework.ErrClosed) })
		if err := c.Delete(ctx, "/n", framework.AnyVersion, framework.Guaranteed()); err == nil {
			t.Fatal("deleted without a server")
		}
		srv.Refuse(false)
		time.Sleep(time.Minute)
		if _, ok := srv.Node("/n"); ok {
			t.Error("the node is still there")
		}
	})
}

// A context may end with a cause that looks like this operation's answer: that
// of another one. The reply to the first try was lost, so that NoNode would be
// the proof that it was executed.
func TestGuaranteedDeleteTakesNoCauseForAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		create(t, c, "/n", "")
		_, _, other := c.Get(context.Background(), "/nowhere")
		ctx, cancel := context.WithCancelCause(context.Background())
		deletes := 0
		defer srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op != "delete" {
				return embedded.Pass
			}
			switch deletes++; deletes {
			case 1:
				return embedded.Cut
			case 2:
				cancel(other)
				return embedded.Drop
			}
			return embedded.Pass
		})()
		err := c.Delete(ctx, "/n", framework.AnyVersion, framework.Guaranteed())
		if !errors.Is(err, context.Canceled) || !errors.Is(err, other) {
			t.Errorf("Delete: %v, want Canceled and its cause", err)
		}
		var e *framework.Error
		if errors.As(err, &e); e == nil || e.Code != 0 || !e.Unknown {
			t.Errorf("Delete: %+v, want no server's code", e)
		}
		srv.DropConnections()
		time.Sleep(time.Minute)
		if _, ok := srv.Node("/n"); ok {
			t.Error("the node is still there")
		}
	})
}

// A server without a quorum refuses writes until it has one again.
func TestGuaranteedDeleteOutlastsReadOnly(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		if _, err := c.Create(context.Background(), "/n", nil); err != nil {
			t.Fatal(err)
		}
		const notReadOnly = -119
		quorum := srv.OnRequest(func(r embedded.Request) embedded.Verdict {
			if r.Op == "delete" {
				return embedded.Answer(notReadOnly)
			}
			return embedded.Pass
		})
		err := c.Delete(context.Background(), "/n", framework.AnyVersion, framework.Guaranteed())
		if !errors.Is(err, framework.ErrReadOnly) {
			t.Fatalf("Delete: %v, want ErrReadOnly", err)
		}
		time.Sleep(time.Minute)
		quorum()
		time.Sleep(time.Minute)
		if _, ok := srv.Node("/n"); ok {
			t.Error("the node is still there")
		}
	})
}
