//go:build linux

package interop_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonzk/baton/internal/interop"
	"github.com/batonzk/baton/internal/leak"
)

// patience is how long anything may take that a test waits for.
const patience = 30 * time.Second

// within returns a context with patience. It outlives t.Context, which ends
// before what is cleaned up.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// startGo returns a Go peer that is closed at the end of the test.
func startGo(t *testing.T, env ...string) *interop.Peer {
	t.Helper()
	p, err := interop.StartGo(within(t), env...)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kind(k string) error { return &interop.Error{Kind: k} }

// wantErr checks that err wraps want.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want an error like %q", what, err, want)
	}
}

func TestMonotonic(t *testing.T) {
	began, first := time.Now(), interop.Monotonic()
	time.Sleep(20 * time.Millisecond)
	took, far := time.Since(began), interop.Monotonic()-first
	if diff := took - far; diff < -10*time.Millisecond || diff > 10*time.Millisecond {
		t.Errorf("%v passed by Go's clock, %v by the machine's", took, far)
	}
	p := startGo(t)
	before := interop.Monotonic()
	_, err := p.Do(within(t), "what is it?", "a word with\na break", "")
	var failure *interop.Error
	if !errors.As(err, &failure) || failure.Kind != "usage" {
		t.Fatalf("%v, want an error of usage", err)
	}
	if now := interop.Monotonic(); failure.At < before || failure.At > now {
		t.Errorf("the other process says it is %v, here it was %v and is %v", failure.At, before, now)
	}
	if !strings.Contains(failure.Text, `"a word with\na break" ""`) {
		t.Errorf("the words did not arrive: %s", failure.Text)
	}
}

func TestPeerEnds(t *testing.T) {
	leak.Check(t)
	p := startGo(t)
	must(t, p.Pause(within(t)))
	call := p.Start("disconnect")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := call.Wait(ctx)
	wantErr(t, "a stopped peer", err, context.DeadlineExceeded)
	must(t, p.Kill())
	_, err = call.Wait(within(t))
	wantErr(t, "a killed peer", err, interop.ErrGone)
	_, err = p.Event(within(t), "never")
	wantErr(t, "an event of a killed peer", err, interop.ErrGone)
	_, err = p.Do(within(t), "disconnect")
	wantErr(t, "a request to a killed peer", err, interop.ErrGone)
	if err := syscall.Kill(p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
	must(t, p.Close())
}

func TestPeerDoesNotStart(t *testing.T) {
	leak.Check(t)
	// A limit that the runtime refuses to start with, aloud.
	_, err := interop.StartGo(within(t), "GODEBUG=fips140=nonsense")
	wantErr(t, "a peer that fails at once", err, interop.ErrGone)
	if !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v: want the peer's last words in it", err)
	}
}

func TestJavaIsAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := interop.StartJava(within(t))
	wantErr(t, "without java", err, interop.ErrNotInstalled)
	if !strings.Contains(err.Error(), "apt-get install default-jdk-headless") {
		t.Errorf("%v: want the package to install in it", err)
	}
}

// orphanVariable makes TestPeerDiesWithItsParent the parent that dies.
const orphanVariable = "BATON_INTEROP_ORPHAN"

func TestPeerDiesWithItsParent(t *testing.T) {
	if os.Getenv(orphanVariable) != "" {
		p, err := interop.StartGo(within(t))
		must(t, err)
		must(t, p.Pause(within(t))) // so that it does not see the end of its input
		os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
		must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	leak.Check(t)
	// The orphan becomes this process's child, not one of a process 1 that may
	// not look after it.
	adopt(t, 1)
	defer adopt(t, 0)
	dir := t.TempDir() // the dying parent leaves its own behind
	cmd := exec.CommandContext(within(t), os.Args[0], "-test.run=^TestPeerDiesWithItsParent$")
	cmd.Env = append(os.Environ(), orphanVariable+"=1", "TMPDIR="+dir)
	out, _ := cmd.Output() // it was killed
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	must(t, err)
	if status.Signal() != syscall.SIGKILL {
		t.Errorf("the orphan ended with status %#x, want SIGKILL", status)
	}
}

// adopt makes this process the parent of its descendants' orphans, or no
// longer: PR_SET_CHILD_SUBREAPER, see prctl(2).
func adopt(t *testing.T, on uintptr) {
	t.Helper()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, 36, on, 0); errno != 0 {
		t.Fatal(errno)
	}
}
