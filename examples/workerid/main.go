// Workerid is a service that makes IDs: at its start it claims a worker number
// that no other process has, and then serves IDs over HTTP.
//
//	go run ./examples/workerid -listen localhost:8080
//	go run ./examples/workerid -listen localhost:8080 -connect zk1:2181,zk2:2181/test
//
//	curl localhost:8080/id         # one
//	curl localhost:8080/ids?n=3    # some, as JSON
//	curl localhost:8080/healthz    # number, slot, and how long it can do without ZooKeeper
//
// While ZooKeeper is away it goes on for as long as time is reserved for it, which
// is at least half a minute after the last ID. If its session is lost it claims
// another number. On SIGTERM, or an interrupt, it
// finishes what it serves and releases the number.
//
// Without -connect it runs on a server within the process. The use of the
// recipes is in service.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// config is what the flags say.
type config struct {
	connect        string
	listen         string
	root           string
	sessionTimeout time.Duration
	window         time.Duration
	wait           time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 after the end of ctx, 1 if something failed, 2 if
// the arguments make no sense.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	cfg, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(errs, "workerid:", err)
		return 2
	}
	if err := serve(ctx, cfg, slog.New(slog.NewTextHandler(out, nil))); err != nil {
		fmt.Fprintln(errs, "workerid:", err)
		return 1
	}
	return 0
}

func parse(args []string, errs io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("workerid", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&c.connect, "connect", "", "ZooKeeper servers, host:port[,host:port...][/chroot]; none: a server within this process")
	flags.StringVar(&c.listen, "listen", "localhost:0", "`address` to serve HTTP at")
	flags.StringVar(&c.root, "root", "/ids/example", "`path` of the worker numbers")
	flags.DurationVar(&c.sessionTimeout, "session-timeout", 10*time.Second, "how long the number stays taken after a crash")
	flags.DurationVar(&c.window, "window", time.Minute, "how much time is reserved ahead")
	flags.DurationVar(&c.wait, "wait", 30*time.Second, "how long the start may take")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, err
		}
		return c, errors.New("see -help")
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected arguments %q", flags.Args())
	}
	return c, nil
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, c config, log *slog.Logger) (err error) {
	servers, stop, err := ensembleOf(c.connect)
	if err != nil {
		return err
	}
	defer stop()
	client, err := framework.New(servers, framework.WithSessionTimeout(c.sessionTimeout), framework.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Start(); err != nil {
		return err
	}
	s, err := newService(ctx, client, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(log)) }()
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	log.Info("serving", "address", listener.Addr().String(), "worker", s.ids.Worker().ID())
	return s.serve(ctx, listener)
}

// ensembleOf returns the servers to use, and what ends them if they are in this
// process.
func ensembleOf(connect string) (framework.Ensemble, func(), error) {
	if connect != "" {
		servers, err := ensemble.NewFixed(connect)
		return servers, func() {}, err
	}
	srv, err := embedded.Start()
	if err != nil {
		return nil, nil, err
	}
	return srv, func() { srv.Close() }, nil
}
