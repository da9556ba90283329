package embedded_test

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/testenv"
)

// The scripts in testdata hold what a ZooKeeper 3.8.0 server answered. Both
// servers have to give these answers: the embedded one always, the real one
// where there is one. To record the answers anew:
//
//	BATON_APACHE=1 go test ./ensemble/embedded -run TestScriptsOnApache -record
var record = flag.Bool("record", false, "record the scripts' answers from a real server")

// A setting is a folder of scripts and how the servers for them are set up.
type setting struct {
	folder   string
	embedded []embedded.Option
	apache   []apache.Option
}

var settings = []setting{
	{
		folder:   "testdata",
		embedded: []embedded.Option{embedded.WithSuper(superDigest)},
		apache: []apache.Option{
			apache.WithTick(2 * time.Second), apache.WithConfig("maxSessionTimeout=40000"), withSuper,
		},
	},
	{
		folder:   "testdata/enforced",
		embedded: []embedded.Option{embedded.WithEnforcedQuotas(), embedded.WithSuper(superDigest)},
		apache: []apache.Option{
			apache.WithTick(2 * time.Second), apache.WithConfig("maxSessionTimeout=40000"), withSuper,
			apache.WithProperty("zookeeper.enforceQuota", "true"),
		},
	},
	{ // what happens by itself, in little time
		folder: "testdata/time",
		embedded: []embedded.Option{
			embedded.WithTick(100 * time.Millisecond), embedded.WithContainerInterval(200 * time.Millisecond),
			embedded.WithSuper(superDigest),
		},
		apache: []apache.Option{
			apache.WithTick(100 * time.Millisecond), apache.WithContainerCheckInterval(200 * time.Millisecond),
			apache.WithConfig("maxSessionTimeout=2000"), withSuper,
		},
	},
}

var withSuper = apache.WithProperty("zookeeper.DigestAuthenticationProvider.superDigest", superDigest)

func dialTCP(addr string) func() net.Conn {
	return func() net.Conn { return must(net.Dial("tcp", addr)) }
}

func dialPipe(srv *embedded.Server) func() net.Conn {
	return func() net.Conn { return must(srv.DialContext(context.Background(), "", "")) }
}

func TestScripts(t *testing.T) {
	for _, set := range settings {
		set.run(t, func(t *testing.T) func() net.Conn { return dialPipe(start(t, set.embedded...)) })
	}
}

func TestScriptsOnApache(t *testing.T) {
	for _, set := range settings {
		real := testenv.StartApache(t, 1, set.apache...)
		set.run(t, func(*testing.T) func() net.Conn { return dialTCP(real.Connect()) })
	}
}

// run compares the answers of a server to each script with those in its file.
func (set *setting) run(t *testing.T, dial func(*testing.T) func() net.Conn) {
	files := scripts(t, set.folder)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			text := string(must(os.ReadFile(file)))
			got := newScript(t, dial(t)).run(text)
			if *record {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareLines(t, text, got)
		})
	}
}

func scripts(t *testing.T, folder string) []string {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(folder, "*.script")))
	if len(files) == 0 {
		t.Fatal("no scripts in", folder)
	}
	return files
}

// compareLines reports the lines in which got differs from want, each with
// the request that it answers.
func compareLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	request := ""
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Errorf("line %d, after %q:\nrecorded: %s\n  answer: %s", i+1, request, a, b)
			if strings.HasPrefix(a, "<") != strings.HasPrefix(b, "<") {
				return // out of step
			}
		}
		if !strings.HasPrefix(a, "<") {
			request = a
		}
	}
}
