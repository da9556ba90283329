//go:build linux

package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/internal/interop"
)

func TestMain(m *testing.M) {
	interop.Main()
	os.Exit(run(m))
}

// run is m.Run that fails, too, if anything is left on the machine.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "baton-interop-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir)

	code := m.Run()
	for what, left := range map[string]func() ([]string, error){
		"processes":       children,
		"temporary files": func() ([]string, error) { return filepath.Glob(filepath.Join(dir, "*")) },
	} {
		if list, err := left(); err != nil || len(list) > 0 {
			fmt.Fprintf(os.Stderr, "%s are left: %q %v\n", what, list, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// children returns the processes whose parent this is, as /proc tells it.
func children() ([]string, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// State and parent follow the name, which is in brackets.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			found = append(found, string(text))
		}
	}
	return found, nil
}
