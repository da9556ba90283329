package main_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonzk/baton/internal/testenv"
)

func TestWithZooKeeper(t *testing.T) {
	testenv.Apache(t)
	program := filepath.Join(t.TempDir(), "withzookeeper")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		output string // what it has to contain
	}{
		{"address", []string{"--", "sh", "-c", `echo "at $BATON_CONNECT is $0"; [ "$0" = "$BATON_CONNECT/app" ]`, "{}/app"}, 0, "at 127.0.0.1:"},
		{"status", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{"no such command", []string{"--", "/no/such/command"}, 125, "/no/such/command"},
		{"no command", nil, 125, "usage:"},
		{"bad number", []string{"-n", "0", "--", "true"}, 125, "number of servers 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(program, c.args...)
			cmd.Env = append(cmd.Environ(), "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(string(out), c.output) {
				t.Errorf("status %d, want %d; output, want %q:\n%s", status, c.status, c.output, out)
			}
		})
	}
}
