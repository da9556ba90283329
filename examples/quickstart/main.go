// Quickstart lets several contenders, each in a client session of its own,
// take turns with one lock. One of them crashes while it holds the lock: its
// session ends, and the lock goes to the next.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -connect zk1:2181,zk2:2181/test
//
// Without -connect it runs on a server within the process. It checks what it
// shows, says so in a summary, and exits with 1 if anything is not as it
// should be.
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
	contenders     int
	turns          int
	work           time.Duration
	sessionTimeout time.Duration
	wait           time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, 1 if something failed, 2 if the arguments
// make no sense.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 2
	}
	if err := play(ctx, cfg, out); err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 1
	}
	return 0
}

func parse(args []string, errs io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&c.connect, "connect", "", "`servers`, as host:port[,host:port...][/chroot]; none: a server within this process")
	flags.IntVar(&c.contenders, "contenders", 4, "how many contenders there are, 2 to 26")
	flags.IntVar(&c.turns, "turns", 3, "how many turns each wants to take")
	flags.DurationVar(&c.work, "work", 40*time.Millisecond, "how long a turn takes")
	flags.DurationVar(&c.sessionTimeout, "session-timeout", 4*time.Second, "how long a session outlives its connection")
	flags.DurationVar(&c.wait, "wait", 10*time.Second, "how long to wait for the servers")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, err
		}
		return c, errors.New("see -help")
	}
	return c, c.validate(flags.Args())
}

func (c config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case c.contenders < 2 || c.contenders > 26:
		return fmt.Errorf("-contenders %d is not between 2 and 26", c.contenders)
	case c.turns < 1:
		return fmt.Errorf("-turns %d is not positive", c.turns)
	case c.work <= 0:
		return fmt.Errorf("-work %v is not positive", c.work)
	case c.sessionTimeout < time.Millisecond:
		return fmt.Errorf("-session-timeout %v is less than a millisecond", c.sessionTimeout)
	case c.wait <= 0:
		return fmt.Errorf("-wait %v is not positive", c.wait)
	}
	_, err := newServers(c)
	return err
}
