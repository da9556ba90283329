//go:build linux

package foreign_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/leak"
	"github.com/batonzk/baton/internal/testenv"
)

// A foreigner runs a client against the server at an address, and returns what
// it printed, without what differs from run to run.
type foreigner func(t *testing.T, addr string) string

// compare has the foreigner use both servers, and shows what is different.
// Of each of wanted there has to be a line.
func compare(t *testing.T, run foreigner, wanted ...string) {
	t.Helper()
	testenv.Apache(t)
	leak.Check(t)
	ours := run(t, startEmbedded(t))
	real := run(t, testenv.StartApache(t, 1).Connect())
	if ours != real {
		t.Errorf("on the embedded server:\n%s\non a real one:\n%s\n%s", ours, real, firstDifference(ours, real))
	}
	for _, line := range wanted {
		if !strings.Contains(ours, line) {
			t.Errorf("not in the output: %q", line)
		}
	}
}

func startEmbedded(t *testing.T) string {
	t.Helper()
	srv, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return addr.String()
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return "first in the lines\n" + as[i] + "\n" + bs[i]
		}
	}
	return "one is longer"
}

// output runs cmd for a minute at most, with its children, and returns what it
// wrote. It has to succeed unless a status is expected.
func output(t *testing.T, cmd *exec.Cmd, status int) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%v: %v, output:\n%s\n%s", cmd.Args, err, &out, &errs)
	}
	return out.String(), errs.String()
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestCurator(t *testing.T) {
	compare(t, func(t *testing.T, addr string) string {
		cmd, err := interop.JavaCommand(bounded(t), "testdata/Foreign.java", addr)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := output(t, cmd, 0)
		return out
	},
		"mutex: most at once 1 left 0", "read-write lock: reader after downgrade true",
		"semaphore: third of two false after a return true holders 2", "latch: leader b b leads true", "counter: 40",
		"double barrier: alone false both true left true true", "path cache: CHILD_REMOVED /path/old o holds 1",
		"tree cache: NODE_REMOVED /tree/a/b/c", "cache: NODE_DELETED /cache/a/b holds 2",
		"persistent node: made again true p", "transaction: NONODE 2 null", "who am I:")
}

// python is Debian's, for which Debian packages kazoo.
const python = "/usr/bin/python3"

func TestKazoo(t *testing.T) {
	compare(t, func(t *testing.T, addr string) string {
		out, _ := output(t, exec.CommandContext(bounded(t), python, "testdata/foreign.py", addr), 0)
		return out
	},
		"lock: left []", "election: b", "counter: 140", "party: ['a']", "data watch: (None, None, 'DELETED')",
		"children watch: ([], 'CHILD')", "transaction: ['RolledBackError', 'NoNodeError', 'RuntimeInconsistency'] []",
		"acl: NoAuthError", "exists: None")
}

const zkCli = "/usr/share/zookeeper/bin/zkCli.sh"

// notFound is the status of zkCli.sh if the last command that failed was
// none that it knows.
const notFound = 127

// TestZkCli compares the answers to the commands in testdata/zkcli.txt. Events
// come from a thread of their own, so that where they stand among the answers
// is chance: they are compared by themselves, as is what goes to the standard
// error.
func TestZkCli(t *testing.T) {
	compare(t, func(t *testing.T, addr string) string {
		cmd := exec.CommandContext(bounded(t), zkCli, "-server", addr)
		cmd.Env = append(os.Environ(), "ZOO_LOG_DIR="+t.TempDir())
		commands, err := os.Open("testdata/zkcli.txt")
		if err != nil {
			t.Fatal(err)
		}
		defer commands.Close()
		cmd.Stdin = commands
		out, errs := output(t, cmd, notFound)
		out = mask(strings.ReplaceAll(out, addr, "ADDRESS"))
		var answers, events []string
		for line := range strings.Lines(out) {
			switch {
			case strings.HasPrefix(line, "WatchedEvent state:Closed"): // sometimes it is quicker to end
			case strings.HasPrefix(line, "WatchedEvent"):
				events = append(events, line)
			case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "WATCHER::"):
				answers = append(answers, line)
			}
		}
		return strings.Join(slices.Concat(answers, events), "") + mask(errs)
	},
		"Node already exists: /p", "Node does not exist: /none/x", "type:NodeDataChanged path:/p", "'digest,'user:5w9W4eL3797Y4Wq8AcKUPPk8ha4=",
		"Insufficient permission : /mine", "Sync is OK", "Created /es-", "Output stat for /c count=3", "Command not found")
}

var masks = regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d [A-Z]+ \d{4}|0x[0-9a-f]{8,}`)

// mask hides dates and sessions.
func mask(s string) string { return masks.ReplaceAllString(s, "…") }
