// Fencing shows resources that refuse a holder that does not know yet that it
// has lost the lock: a SQL table, and an HTTP handler in front of something
// that cannot check anything itself.
//
//	go run ./examples/fencing
//	go run ./examples/fencing -connect zk1:2181,zk2:2181/test
//
// Two holders, each a process of its own, write a report under one lock. The
// first is stopped (SIGSTOP) between its last look at its lease and its write,
// for longer than its session lasts. The second gets the lock and writes; then
// the first goes on with its write. Both resources refuse it, and a table that
// does not compare tokens loses what the second wrote.
//
// Without -connect it runs on a server within the process. It checks what it
// shows, says so in a summary, and exits with 1 if anything is not as it
// should be. The resources' side is in fence.go, table.go and gate.go, the
// holder's in holder.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// config is what the flags say.
type config struct {
	connect        string
	sessionTimeout time.Duration
	wait           time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit code: 0, 1 if something failed, 2 if the arguments
// make no sense. The program starts itself as its holders.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) > 0 && args[0] == holderCommand {
		return exitCode(hold(ctx, args[1:], in, out, errs), "holder", errs)
	}
	cfg, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(errs, "fencing:", err)
		return 2
	}
	return exitCode(play(ctx, cfg, out), "fencing", errs)
}

func exitCode(err error, name string, errs io.Writer) int {
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func parse(args []string, errs io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("fencing", flag.ContinueOnError)
	flags.SetOutput(errs)
	c.flags(flags, "; none: a server within this process")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, err
		}
		return c, errors.New("see -help")
	}
	return c, c.validate(flags.Args())
}

func (c *config) flags(flags *flag.FlagSet, none string) {
	flags.StringVar(&c.connect, "connect", "", "`servers`, as host:port[,host:port...][/chroot]"+none)
	flags.DurationVar(&c.sessionTimeout, "session-timeout", 2*time.Second, "how long a session outlives its last ping")
	flags.DurationVar(&c.wait, "wait", 10*time.Second, "how long to wait for the servers")
}

func (c config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.sessionTimeout < 100*time.Millisecond:
		return fmt.Errorf("-session-timeout %v is less than 100 ms", c.sessionTimeout)
	case c.wait <= 0:
		return fmt.Errorf("-wait %v is not positive", c.wait)
	}
	_, err := newServers(c)
	return err
}
