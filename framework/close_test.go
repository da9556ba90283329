package framework_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// TestCloseCompletesCalls: all that is pending, frozen at the server, waiting
// for a connection or for its turn, ends with ErrClosed at once.
func TestCloseCompletesCalls(t *testing.T) {
	for _, connected := range []bool{true, false} {
		eachOperation(t, func(t *testing.T, srv *embedded.Server, op anOperation) {
			c := connect(t, srv, framework.WithMaxInFlight(2))
			create(t, c, "/n", "")
			came, release := holdOp(srv, op.name)
			defer release()
			if !connected {
				srv.Refuse(true)
				srv.DropConnections()
				synctest.Wait()
			}
			const callers = 5
			finished := make(chan error, callers)
			for range callers {
				go func() { finished <- op.do(context.Background(), c) }()
			}
			if connected {
				<-came
			}
			synctest.Wait()
			began := time.Now()
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			for range callers {
				if err := <-finished; !errors.Is(err, framework.ErrClosed) {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Fatalf("the calls took %v to end", took)
			}
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Fatalf("Close took %v", took)
			}
		})
	}
}

func TestCloseAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		ns, _ := c.Namespace("a")
		if err := ns.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCloseAtAnyMoment of connecting.
func TestCloseAtAnyMoment(t *testing.T) {
	for name, setUp := range map[string]func(srv *embedded.Server){
		"serving": func(*embedded.Server) {},
		"refused": func(srv *embedded.Server) { srv.Refuse(true) },
		"silent":  func(srv *embedded.Server) { srv.Silence() },
	} {
		for _, after := range []time.Duration{0, 1, time.Millisecond, 30 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second} {
			t.Run(name+" "+after.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, srv *embedded.Server) {
					setUp(srv)
					c := newClient(t, srv)
					time.Sleep(after)
					began := time.Now()
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > 1100*time.Millisecond {
						t.Fatalf("took %v", took)
					}
				})
			})
		}
	}
}

// TestCloseSilent: the server has fallen silent on an established session.
func TestCloseSilent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv, framework.WithSessionTimeout(time.Minute))
		srv.Silence()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Fatalf("took %v", took)
		}
	})
}

// TestCloseWaitsForGo and for listeners, but only so long.
func TestCloseWaitsForGo(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c, err := framework.New(srv, framework.WithCloseTimeout(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		c.Go(func() { time.Sleep(5 * time.Second) })
		for range 2 {
			began := time.Now()
			if err := c.Close(); err == nil || !strings.Contains(err.Error(), "2s") || time.Since(began) != 2*time.Second {
				t.Fatal(err, time.Since(began))
			}
		}
		if err := c.Close(); err != nil {
			t.Fatalf("Close when all has ended: %v", err)
		}
	})
}

// TestNothingAfterClose: no request is sent once the session is over.
func TestNothingAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, srv *embedded.Server) {
		c := connect(t, srv)
		log := logRequests(srv)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					_, err := c.Create(context.Background(), "/n", nil, framework.Protected())
					if errors.Is(err, framework.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
					}
					if rand.N(20) == 0 {
						time.Sleep(time.Microsecond) // lets the time go on
					}
				}
			})
		}
		time.Sleep(3 * time.Microsecond)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		ops := log.ops()
		if ops[len(ops)-1] != "closeSession" {
			t.Fatalf("%q after closeSession", ops[len(ops)-1])
		}
	})
}
