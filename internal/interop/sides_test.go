//go:build linux

package interop_test

import (
	"testing"
	"time"

	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/testenv"
)

// sides are a Go process and a Java process with Curator, each connected.
type sides struct {
	*world
	golang, java *session
}

// eachWay runs f with Go and Java in both roles.
func (s *sides) eachWay(t *testing.T, f func(t *testing.T, holder, next *session)) {
	t.Run("go then java", func(t *testing.T) { f(t, s.golang, s.java) })
	t.Run("java then go", func(t *testing.T) { f(t, s.java, s.golang) })
}

const (
	// briefly is how long those wait who wait in vain.
	briefly = 200 * time.Millisecond
	// lasting is a session that does not expire: Curator may take more than a
	// second to connect again.
	lasting = 10 * time.Second
	// short is a session that is going to expire.
	short = 2 * time.Second
)

// startJava returns a Java peer that is closed at the end of the test.
func startJava(t *testing.T) *interop.Peer {
	t.Helper()
	p, err := interop.StartJava(within(t))
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func TestCurator(t *testing.T) {
	testenv.Apache(t)
	onEachServer(t, 500*time.Millisecond, func(t *testing.T, w *world) {
		s := &sides{
			world:  w,
			golang: w.connectThrough(t, startGo(t), lasting),
			java:   w.connectThrough(t, startJava(t), lasting),
		}
		for _, f := range exclusive {
			t.Run(f.name, func(t *testing.T) {
				t.Run("exclusion", func(t *testing.T) { s.exclusion(t, f) })
				t.Run("order", func(t *testing.T) { s.order(t, f) })
				t.Run("names", func(t *testing.T) { s.names(t, f) })
				t.Run("lost replies", func(t *testing.T) { s.lostReplies(t, f) })
				t.Run("revocation", func(t *testing.T) { s.revocation(t, f) })
				t.Run("force", func(t *testing.T) { s.force(t, f) })
				t.Run("foreign child", func(t *testing.T) { s.foreignChild(t, f) })
			})
		}
		t.Run("read-write lock", func(t *testing.T) {
			t.Run("readers together", s.readersTogether)
			t.Run("downgrade", s.downgrade)
			t.Run("upgrade", s.upgrade)
			t.Run("CURATOR-621", s.curator621)
		})
		t.Run("semaphore", func(t *testing.T) {
			t.Run("permits", s.permits)
			t.Run("all or none", s.allOrNone)
			t.Run("shared limit", s.sharedLimit)
			t.Run("hold and wait", s.holdAndWait)
			t.Run("foreign lease", s.foreignLease)
		})
		t.Run("contention", s.contention)
	})
}
