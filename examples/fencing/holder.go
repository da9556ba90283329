package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/batonzk/baton/recipes"
)

// holderCommand is the first argument of the program as a holder.
const holderCommand = "holder"

// holderConfig is what a holder is told.
type holderConfig struct {
	config
	name     string
	lock     string // its path
	database string // the file
	page     string // its URL
}

func (c holderConfig) args() []string {
	return []string{
		holderCommand, "-connect", c.connect, "-session-timeout", c.sessionTimeout.String(), "-wait", c.wait.String(),
		"-name", c.name, "-lock", c.lock, "-database", c.database, "-page", c.page,
	}
}

func parseHolder(args []string, errs io.Writer) (holderConfig, error) {
	var c holderConfig
	flags := flag.NewFlagSet(holderCommand, flag.ContinueOnError)
	flags.SetOutput(errs)
	c.flags(flags, "")
	flags.StringVar(&c.name, "name", "", "what the holder is called")
	flags.StringVar(&c.lock, "lock", "", "the lock's `path`")
	flags.StringVar(&c.database, "database", "", "the database's `file`")
	flags.StringVar(&c.page, "page", "", "the page's `URL`")
	return c, flags.Parse(args)
}

// A message is what a holder tells the process that started it.
type message struct {
	Event string

	// Of eventWriting.
	Token   int64         `json:",omitempty"`
	Timeout time.Duration `json:",omitempty"` // of the session

	// Of eventWrote: by resource, "" or why the write was refused.
	Refusals map[string]string `json:",omitempty"`

	// Of eventLost.
	Why string `json:",omitempty"`
}

// What a holder tells. After eventWriting it waits to be told to go on.
const (
	eventWriting = "writing" // it has looked at its lease, which is good
	eventWrote   = "wrote"
	eventLost    = "lost" // it has looked at its lease, which has ended
)

// The resources.
const (
	resourceTable     = "SQL table"
	resourceGate      = "HTTP gate"
	resourceUnchecked = "unchecked table"
)

var resources = []string{resourceTable, resourceGate, resourceUnchecked}

// A holder acquires the lock and writes the report, as often as it is told to.
type holder struct {
	holderConfig
	table table
	http  *http.Client
	in    *bufio.Scanner // a line for each time that it is to go on
	out   *json.Encoder
}

func hold(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	cfg, err := parseHolder(args, errs)
	if err != nil {
		return err
	}
	db, err := openDatabase(ctx, cfg.database)
	if err != nil {
		return err
	}
	defer db.Close()
	h := &holder{holderConfig: cfg, table: table{db}, http: &http.Client{Timeout: cfg.wait}, in: bufio.NewScanner(in), out: json.NewEncoder(out)}
	defer h.http.CloseIdleConnections()
	if err := h.run(ctx); err != nil {
		return fmt.Errorf("%s: %w", cfg.name, err)
	}
	return nil
}

func (h *holder) run(ctx context.Context) error {
	client, err := connected(ctx, h.config)
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := recipes.NewInterProcessMutex(client, h.lock, recipes.WithData([]byte(h.name))).Acquire(ctx)
	if err != nil {
		return err
	}
	err = h.work(ctx, lease)
	if errors.Is(err, recipes.ErrLost) {
		lease.Release() // would say the same again
		return h.out.Encode(message{Event: eventLost, Why: err.Error()})
	}
	return errors.Join(err, lease.Release())
}

// work writes until nobody tells it to go on.
func (h *holder) work(ctx context.Context, lease *recipes.Lease) error {
	for n := 1; ; n++ {
		if err := lease.Err(); err != nil {
			return err
		}
		writing := message{Event: eventWriting, Token: lease.Token(), Timeout: lease.Session().Timeout()}
		if err := h.out.Encode(writing); err != nil {
			return err
		}
		// Here the process is stopped. Anywhere between the look and the moment
		// at which the resource acts would do: no look can be late enough.
		if !h.in.Scan() {
			return h.in.Err()
		}
		// The lease's context would be a further look, and mostly help. It is not
		// used, as it cannot call back what has been sent.
		refusals, err := h.write(ctx, lease.Token(), n)
		if err != nil {
			return err
		}
		if err := h.out.Encode(message{Event: eventWrote, Refusals: refusals}); err != nil {
			return err
		}
	}
}

// write writes the n-th report of this holder to all resources, and returns
// what each of them says: "", or why it refuses.
func (h *holder) write(ctx context.Context, token int64, n int) (map[string]string, error) {
	refusals := make(map[string]string)
	for _, resource := range resources {
		var err error
		switch resource {
		case resourceTable:
			err = h.table.write(ctx, token, reportOf(h.name, n))
		case resourceGate:
			err = putPage(ctx, h.http, h.page, token, pageOf(h.name, n))
		case resourceUnchecked:
			err = h.table.writeUnchecked(ctx, reportOf(h.name, n))
		}
		switch {
		case errors.Is(err, errStale):
			refusals[resource] = err.Error()
		case err != nil:
			return nil, fmt.Errorf("%s: %w", resource, err)
		default:
			refusals[resource] = ""
		}
	}
	return refusals, nil
}

// reportOf is what a holder writes into a table.
func reportOf(name string, n int) map[string]string {
	return map[string]string{"author": name, "edition": fmt.Sprint(n)}
}

// pageOf is what it writes to a page.
func pageOf(name string, n int) string { return fmt.Sprintf("report by %s, edition %d", name, n) }
