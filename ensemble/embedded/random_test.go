package embedded_test

import (
	"flag"
	"fmt"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/testenv"
)

// TestRandom sends the same random requests of three sessions to this server
// and to a real one. A difference is shrunk to a short script, which can be
// put into testdata. For more, or others:
//
//	BATON_APACHE=1 go test ./ensemble/embedded -run TestRandom -operations 1000000 -rapid.seed 7
var operations = flag.Int("operations", 100_000, "how many random requests to compare")

const requestsPerCheck = 1000

func TestRandom(t *testing.T) {
	real := testenv.StartApache(t, 1, settings[0].apache...)
	setDefault(t, "rapid.seed", "1") // the same every time, unless asked for another
	seed := must(strconv.Atoi(flag.Lookup("rapid.seed").Value.String()))
	setDefault(t, "rapid.steps", fmt.Sprint(requestsPerCheck/7))
	setDefault(t, "rapid.checks", "20")
	setDefault(t, "rapid.nofailfile", "true")
	done := 0
	for ; done < *operations; seed++ {
		_ = flag.Set("rapid.seed", strconv.Itoa(seed)) // never fails
		done += compareRandom(t, dialTCP(real.Connect()))
	}
	t.Logf("%d requests compared", done)
}

// compareRandom compares the server behind dial with an embedded one, and
// returns how many requests it has sent.
func compareRandom(t *testing.T, dial func() net.Conn) (done int) {
	rapid.Check(t, func(rt *rapid.T) {
		srv := must(embedded.Start(settings[0].embedded...))
		defer srv.Close()
		p := pair{real: newScript(t, dial), ours: newScript(t, dialPipe(srv))}
		defer p.cleanUp()
		for _, line := range []string{"a create /t 0 x", "a create /t/f 0 x", "b create /t/f/x 0 x", "c getData /t/f watch"} {
			p.step(rt, line)
		}
		rt.Repeat(map[string]func(*rapid.T){"line": func(rt *rapid.T) {
			line := lines.Draw(rt, "line")
			done += 1 + strings.Count(line, "&")
			p.step(rt, line)
		}})
	})
	return done
}

// crooked tells a copy of the test binary to compare with a server that is
// not right.
const crooked = "BATON_TEST_CROOKED"

// A difference is found and comes down to a short script.
func TestDifferencesAreShrunk(t *testing.T) {
	if os.Getenv(crooked) != "" {
		wrong := start(t, embedded.WithoutContainers(), embedded.WithSuper(superDigest))
		compareRandom(t, dialPipe(wrong))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDifferencesAreShrunk$",
		"-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1s")
	cmd.Env = append(os.Environ(), crooked+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("no difference was found:\n%s", out)
	}
	_, script, _ := strings.Cut(string(out), "random_test.go")
	_, script, found := strings.Cut(script, "after\n")
	script, _, more := strings.Cut(script, "real server:")
	requests := strings.Count(script, "\n") + strings.Count(script, "&")
	t.Logf("the script:\n%s", script)
	if !found || !more || requests > 20 || !strings.Contains(script, "createTTL") && !strings.Contains(script, "createContainer") {
		t.Errorf("%d requests, of output\n%s", requests, out)
	}
}

// given tells which flags are set on the command line.
var given = map[string]bool{}

// setDefault sets a flag unless the command line does.
func setDefault(t *testing.T, name, value string) {
	t.Helper()
	if len(given) == 0 {
		flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	}
	if !given[name] {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

// A pair is one script that runs on two servers.
type pair struct {
	real, ours *script
	lines      []string
}

// step carries out one line on both.
func (p *pair) step(t *rapid.T, line string) {
	p.real.lazy, p.ours.lazy = true, true
	p.lines = append(p.lines, line)
	want, got := p.real.line(line), p.ours.line(line)
	if want != got {
		t.Fatalf("after\n%s\nreal server:\n%sembedded:\n%s", strings.Join(p.lines, "\n"), want, got)
	}
}

func (p *pair) cleanUp() {
	p.real.cleanUp()
	p.ours.cleanUp()
}

// A generator makes random requests. They keep to few nodes, so that they meet.
type generator struct{ t *rapid.T }

var (
	bit   = rapid.Bool()
	lines = rapid.Custom(func(t *rapid.T) string {
		g := generator{t}
		return g.pick("a", "b", "c") + " " + g.line()
	})
)

// intN returns a number below n, each about as likely: rapid's own ranges
// favour small numbers.
func (g generator) intN(n int) int {
	v := 0
	for range bits.Len(uint(n-1)) + 2 {
		v *= 2
		if bit.Draw(g.t, "") {
			v++
		}
	}
	return v % n
}

func (g generator) pick(words ...string) string { return words[g.intN(len(words))] }

func (g generator) path() string {
	path := "/t/f"
	for range g.intN(4) {
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
	switch g.intN(9) {
	case 0, 1, 2:
		return fmt.Sprintf("create %s %s d%d %s", g.path(), g.pick("0", "0", "1", "2", "3", "9"), g.intN(9), g.acl())
	case 3:
		return fmt.Sprintf("create2 %s %s d %s", g.path(), g.pick("0", "2"), g.acl())
	case 4:
		return fmt.Sprintf("createContainer %s 4 d", g.path())
	case 5:
		return fmt.Sprintf("createTTL %s %s %s", g.path(), g.pick("5", "6"), g.pick("100000", "0", "-1"))
	case 6:
		return fmt.Sprintf("setData %s d%d %s", g.path(), g.intN(99), g.version())
	}
	return fmt.Sprintf("delete %s %s", g.path(), g.version())
}

func (g generator) multi() string {
	parts := []string{"multi " + g.change()}
	for range g.intN(4) {
		parts = append(parts, g.pick(g.change(), "check "+g.path()+" "+g.version()))
	}
	return strings.Join(parts, " ; ")
}

func (g generator) setACL() string {
	return "setACL " + g.path() + " " + g.pick("31|world|anyone", "31|auth|", "1|world|anyone", "-") + " " + g.version()
}

// line returns one request, or up to ten that are sent at once.
func (g generator) line() string {
	if g.intN(6) == 0 {
		return g.pick("closeSession", "resume", "resume readonly", "ping", "auth digest alice:secret", "auth digest bob:secret")
	}
	requests := []string{g.request()}
	for range g.intN(10) {
		requests = append(requests, g.request())
	}
	if g.intN(4) == 0 { // last: a real server checks what is behind against the ACL as it was, if it is quick
		requests = append(requests, g.setACL())
	}
	return strings.Join(requests, " & ")
}

// request returns any operation that keeps its place among others.
func (g generator) request() string {
	switch g.intN(22) {
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
		return "getACL " + g.path()
	case 15:
		return "addWatch " + g.path() + " " + g.pick("0", "1")
	case 16:
		return g.pick("removeWatches ", "checkWatches ") + g.path() + " " + g.pick("1", "2", "3")
	case 17:
		return fmt.Sprintf("setWatches %d %s %s %s", g.intN(requestsPerCheck), g.paths(), g.paths(), g.paths())
	case 18:
		return fmt.Sprintf("setWatches2 %d %s %s %s %s %s", g.intN(requestsPerCheck), g.paths(), g.paths(), g.paths(), g.paths(), g.paths())
	case 19:
		return g.pick("getEphemerals /t/f", "getAllChildrenNumber "+g.path(), "whoAmI", "sync /t", "ping")
	case 20:
		return "delete " + g.path() + " " + g.version()
	}
	return "multiRead getData " + g.path() + " ; getChildren " + g.path()
}
