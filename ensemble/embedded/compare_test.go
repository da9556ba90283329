package embedded_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble/embedded"
)

// Random scripts, carried out by this server and by a real one:
//
//	go test ./ensemble/embedded -run TestCompare -compare 127.0.0.1:2181 -rounds 100
//
// The real server must be one for [TestScripts], and its superuser's password
// "secret". A difference is shown with the seed and round that bring it back.
var (
	compareWith = flag.String("compare", "", "compare with the ZooKeeper server at this address")
	rounds      = flag.Int("rounds", 20, "how many random scripts to compare")
	seed        = flag.Uint64("seed", 1, "seed of the random scripts")
)

func TestCompare(t *testing.T) {
	if *compareWith == "" {
		t.Skip("no -compare")
	}
	for round := range *rounds {
		text := randomScript(rand.New(rand.NewPCG(*seed, uint64(round))), 250)
		real := newScript(t, func() net.Conn { return must(net.Dial("tcp", *compareWith)) })
		srv := start(t, embedded.WithSuper(superDigest))
		ours := newScript(t, func() net.Conn { return must(srv.DialContext(context.Background(), "", "")) })
		real.cleanUp() // of a run that failed
		compareLines(t, real.run(text), ours.run(text))
		if t.Failed() {
			t.Fatalf("-seed %d, round %d", *seed, round)
		}
	}
}

// A generator makes random requests. They keep to few nodes, so that they meet.
type generator struct{ *rand.Rand }

// randomScript returns n requests of three sessions.
func randomScript(rnd *rand.Rand, n int) string {
	g := generator{rnd}
	lines := []string{"a create /t 0 x", "a create /t/f 0 x", "b create /t/f/x 0 x", "c getData /t/f watch"}
	for range n {
		lines = append(lines, g.pick("a", "b", "c")+" "+g.request(n))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (g generator) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) path() string {
	path := "/t/f"
	for range g.IntN(4) {
		path += "/" + g.pick("x", "y", "z", "x", "y", "z", "lock-", "näme", "members", "e1", "f2", "_c_aa-", "q")
	}
	return path
}

// paths returns up to two paths, for setWatches.
func (g generator) paths() string {
	return g.pick("-", g.path(), g.path()+","+g.path())
}

func (g generator) version() string { return g.pick("-1", "-1", "-1", "0", "1", "2") }
func (g generator) watch() string   { return g.pick("", "watch", "watch") }

func (g generator) acl() string {
	return g.pick("", "", "", "", "31|auth|", "1|world|anyone",
		"31|digest|alice:fGqUKDbOMcbWJyaAvLgkJHlsOiE=", "29|world|anyone,2|ip|127.0.0.1", "-")
}

// change returns an operation that may be part of a multi.
func (g generator) change() string {
	switch g.IntN(9) {
	case 0, 1, 2:
		return fmt.Sprintf("create %s %s d%d %s", g.path(), g.pick("0", "0", "1", "2", "3", "9"), g.IntN(9), g.acl())
	case 3:
		return fmt.Sprintf("create2 %s %s d %s", g.path(), g.pick("0", "2"), g.acl())
	case 4:
		return fmt.Sprintf("createContainer %s 4 d", g.path())
	case 5:
		return fmt.Sprintf("createTTL %s %s %s", g.path(), g.pick("5", "6"), g.pick("100000", "0", "-1"))
	case 6:
		return fmt.Sprintf("setData %s d%d %s", g.path(), g.IntN(99), g.version())
	}
	return fmt.Sprintf("delete %s %s", g.path(), g.version())
}

func (g generator) multi() string {
	parts := []string{"multi " + g.change()}
	for range g.IntN(4) {
		parts = append(parts, g.pick(g.change(), "check "+g.path()+" "+g.version()))
	}
	return strings.Join(parts, " ; ")
}

// request returns any operation; n is about how many transactions there are.
func (g generator) request(n int) string {
	switch g.IntN(23) {
	case 0, 1, 2, 3, 4, 5:
		return g.change()
	case 6, 7:
		return g.multi()
	case 8, 9:
		return "exists " + g.path() + " " + g.watch()
	case 10, 11:
		return "getData " + g.path() + " " + g.watch()
	case 12, 13:
		return g.pick("getChildren ", "getChildren2 ") + g.path() + " " + g.watch()
	case 14:
		return "setACL " + g.path() + " " + g.pick("31|world|anyone", "31|auth|", "1|world|anyone", "-") + " " + g.version()
	case 15:
		return "getACL " + g.path()
	case 16:
		return "addWatch " + g.path() + " " + g.pick("0", "1")
	case 17:
		return g.pick("removeWatches ", "checkWatches ") + g.path() + " " + g.pick("1", "2", "3")
	case 18:
		return fmt.Sprintf("setWatches2 %d %s %s %s %s %s", g.IntN(n), g.paths(), g.paths(), g.paths(), g.paths(), g.paths())
	case 19:
		return g.pick("getEphemerals /t/f", "getAllChildrenNumber "+g.path(), "whoAmI", "sync /t")
	case 20:
		return g.pick("closeSession", "resume", "resume readonly", "ping", "auth digest alice:secret", "auth digest bob:secret")
	case 21:
		return "delete " + g.path() + " " + g.version()
	}
	return "multiRead getData " + g.path() + " ; getChildren " + g.path()
}
