package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
	"github.com/batonzk/baton/retry"
)

// throttled is the answer of a server that has too much to do.
const throttled = -127

// impatient makes a client give up soon.
func impatient() []framework.Option {
	return []framework.Option{
		framework.WithRetry(retry.NTimes(1, 10*time.Millisecond)),
		framework.WithConnectionTimeout(50 * time.Millisecond),
	}
}

// Acquire outlasts a time without servers that comes before it is in line,
// however little patience the client has; TryAcquire has the client's.
func TestAcquireOutlastsOutage(t *testing.T) {
	t.Parallel()
	direct := func(ctx context.Context, m *recipes.InterProcessMutex) (*recipes.Lease, error) { return m.Acquire(ctx) }
	for name, acquire := range map[string]func(context.Context, *recipes.InterProcessMutex) (*recipes.Lease, error){
		"direct": direct,
		"in another retry loop": func(ctx context.Context, m *recipes.InterProcessMutex) (lease *recipes.Lease, err error) {
			err = retry.Do(ctx, retry.OneTime(time.Millisecond), func(ctx context.Context) (err error) {
				lease, err = direct(ctx, m)
				return err
			})
			return lease, err
		},
	} {
		for when, outage := range map[string]func(w *world, c *framework.Client) (over func()){
			"at first": func(w *world, c *framework.Client) func() {
				w.link(c).refuse(true)
				w.link(c).drop()
				return func() { w.link(c).refuse(false) }
			},
			"throttled": func(w *world, c *framework.Client) func() {
				return w.srv.OnRequest(matcher(op("create", "create2")).answer(throttled))
			},
			"joining anew": func(w *world, c *framework.Client) func() {
				id := c.Session().ID()
				time.AfterFunc(soon, func() {
					w.link(c).refuse(true)
					_ = w.srv.ExpireSession(id)
					w.link(c).drop()
				})
				return func() { w.link(c).refuse(false) }
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(w *world) {
					holder := w.acquire(w.mutex())
					c := w.client(impatient()...)
					m := recipes.NewInterProcessMutex(c, root)
					over := outage(w, c)
					if when != "joining anew" {
						_, err := m.TryAcquire(w.ctx)
						if !framework.IsRetryable(err) {
							t.Errorf("TryAcquire says %v", err)
						}
					}
					log := w.requests(isWork)
					short, cancel := context.WithTimeout(w.ctx, 3*sessionTimeout)
					defer cancel()
					_, err := acquire(short, m)
					wantErr(t, "Acquire, until its context ends", err, context.DeadlineExceeded)
					if n := len(log.ops()); n > 800 { // four for each try
						t.Errorf("it sent %d requests in %v", n, 3*sessionTimeout)
					}
					long := make(chan *recipes.Lease)
					go func() {
						lease, err := acquire(w.ctx, m)
						if err != nil {
							t.Error(err)
						}
						long <- lease
					}()
					time.Sleep(sessionTimeout)
					over()
					w.release(holder)
					select {
					case lease := <-long:
						w.granted(root, lease)
						w.release(lease)
					case <-time.After(2 * soon):
						t.Error("not granted when the outage is over")
						w.release(<-long)
					}
				})
			})
		}
	}
}

// What no server will ever take ends Acquire.
func TestCredentialsNoServerTakes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c, err := framework.New(w.servers, append(impatient(), framework.WithAuth("nonsense", []byte("x")))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		w.clients = append(w.clients, c)
		_, err = recipes.NewInterProcessMutex(c, root).Acquire(w.ctx)
		wantErr(t, "Acquire", err, framework.ErrAuthFailed)
	})
}

// A cleaner that deletes contenders as soon as they come makes them come back
// at a bearable rate.
func TestContendersDeletedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		outsider := w.client()
		holder := w.acquire(w.mutex())
		c := w.client()
		m := recipes.NewInterProcessMutex(c, root)
		log := w.requests(of(c, op("create2")))
		clean := w.srv.OnReply(func(r embedded.Request) embedded.Verdict {
			if r.Session == c.Session().ID() && r.Op == "create2" {
				for _, info := range w.srv.Sessions() {
					if info.ID != r.Session {
						continue
					}
					for _, path := range info.Ephemerals {
						w.remove(outsider, path)
					}
				}
			}
			return embedded.Pass
		})
		ctx, cancel := context.WithTimeout(w.ctx, sessionTimeout)
		defer cancel()
		_, err := m.Acquire(ctx)
		wantErr(t, "Acquire", err, context.DeadlineExceeded)
		if n := len(log.ops()); n < 5 || n > 100 {
			t.Errorf("it joined %d times in %v", n, sessionTimeout)
		}
		clean()
		w.release(holder)
		began := time.Now()
		w.acquireAndRelease(m)
		if took := time.Since(began); took > 0 {
			t.Errorf("afterwards it took %v", took)
		}
	})
}
