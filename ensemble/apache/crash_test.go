package apache_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/internal/testenv"
)

// crashRole tells a copy of the test binary to be the process that crashes.
const crashRole = "BATON_TEST_CRASH"

func TestMain(m *testing.M) {
	if os.Getenv(crashRole) != "" {
		crashing()
	}
	os.Exit(m.Run())
}

// crashing starts two lonely servers, pauses the second, tells their addresses,
// and waits to be killed.
func crashing() {
	for i := range 2 {
		e, err := apache.Start(context.Background(), 1)
		if err == nil && i == 1 {
			err = e.Server(0).Pause()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("addr", e.Connect())
	}
	select {}
}

func TestServersDieWithTheirParent(t *testing.T) {
	testenv.Apache(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashRole+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var addrs []string
	for lines := bufio.NewScanner(out); len(addrs) < 2 && lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "addr "); ok {
			addrs = append(addrs, addr)
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if len(addrs) != 2 {
		t.Fatalf("the servers did not start: %q", addrs)
	}
	// A paused server keeps its port open, so a closed port means that it died.
	for _, addr := range addrs {
		deadline := time.Now().Add(5 * time.Second)
		for open(addr) {
			if time.Now().After(deadline) {
				t.Fatalf("the server at %s outlived its parent", addr)
			}
			time.Sleep(10 * time.Millisecond) // another process: there is only the port to look at
		}
	}
}

func open(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
