package embedded_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/proc"
)

// alone tells a copy of the test binary to be nothing but a server.
const alone = "BATON_TEST_ALONE"

func TestMain(m *testing.M) {
	if os.Getenv(alone) != "" {
		beServer()
		return
	}
	goleak.VerifyTestMain(m)
}

// beServer says its address and serves until its input ends.
func beServer() {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	_ = embedded.Serve(l) // the listener was closed
}

// startAlone starts a server in a process of its own, as a real one is, and
// returns its address. The test ends it.
func startAlone(t testing.TB) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), alone+"=1")
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	said, ended := make(chan string, 1), make(chan struct{})
	err := proc.Start(cmd, func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // empty if it has died
		said <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, out)
	}, func(error) { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		<-ended
	})
	addr := <-said
	if addr == "" {
		t.Fatal("the server in a process of its own has not started")
	}
	return addr
}
