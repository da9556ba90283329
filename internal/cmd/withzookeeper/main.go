// Command withzookeeper starts real ZooKeeper servers, runs a command with
// their address, and stops them.
//
//	go run ./internal/cmd/withzookeeper [-n servers] -- command [argument ...]
//
// In the arguments, {} stands for the connect string; it is also in the
// environment, as BATON_CONNECT. The exit status is that of the command (which
// go run reports as 1 whatever it is), and 125 if the command was not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
)

// notRun is the exit status that env(1) and its like use for their own errors.
const notRun = 125

func main() { os.Exit(run()) }

func run() int {
	n := flag.Int("n", 1, "number of servers")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: withzookeeper [-n servers] -- command [argument ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		return notRun
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := with(ctx, *n, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withzookeeper:", err)
	}
	return status
}

// with runs the command between the start and the end of n servers.
func with(ctx context.Context, n int, command []string) (status int, err error) {
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ens, err := apache.Start(starting, n)
	if err != nil {
		return notRun, err
	}
	defer func() { err = errors.Join(err, ens.Close()) }()
	return child(ctx, ens.Connect(), command)
}

// child runs the command and returns its exit status. When ctx ends, it is
// asked to end, and killed five seconds later.
func child(ctx context.Context, connect string, command []string) (int, error) {
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = strings.ReplaceAll(arg, "{}", connect)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "BATON_CONNECT="+connect)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	case errors.As(err, &exit):
		return 1, err // ended by a signal
	}
	return notRun, err
}
