package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A game is one run: the resources, and what is written down of it.
type game struct {
	config
	servers *servers
	judge   *framework.Client // takes no part, looks at the line
	lock    string            // its path
	dir     string            // where the resources keep their data
	db      *sql.DB
	page    string // its URL
	began   time.Time
	out     io.Writer
	record  record
}

// play runs the holders and checks what happened.
func play(ctx context.Context, cfg config, out io.Writer) error {
	if err := canPause(); err != nil {
		return err
	}
	s, err := newServers(cfg)
	if err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	defer s.stop()
	cfg.connect = s.connect
	g := &game{config: cfg, servers: s, lock: fmt.Sprintf("/baton-fencing-%x", time.Now().UnixNano()), out: out}
	g.judge, err = connected(ctx, cfg)
	if err != nil {
		return err
	}
	defer g.judge.Close()
	closeResources, err := g.openResources(ctx)
	if err != nil {
		return err
	}
	defer closeResources()

	fmt.Fprintf(out, "Two processes, A and B, write a report under the lock %s on %s.\n"+
		"It is kept in a SQL table and behind an HTTP gate, which check tokens, and in a table which does not.\n\n", g.lock, s.name)
	g.began = time.Now()
	err = g.contend(ctx)
	if err == nil {
		err = g.summary(ctx)
	}
	return errors.Join(err, g.clean(ctx))
}

// openResources makes the database and the gate, in a folder that is removed
// by the function that it returns.
func (g *game) openResources(ctx context.Context) (closeAll func(), err error) {
	var undo []func()
	closeAll = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	g.dir, err = os.MkdirTemp("", "baton-fencing-")
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { os.RemoveAll(g.dir) })
	// The database is not among the pages, or a PUT could replace it.
	pages := filepath.Join(g.dir, "pages")
	if err := os.Mkdir(pages, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(pages)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { root.Close() })
	g.db, err = openDatabase(ctx, g.database())
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { g.db.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.page = fmt.Sprintf("http://%s/pages/report", listener.Addr())
	stop := serve(listener, newGate(g.db, folder{root}).handler(), g.wait)
	undo = append(undo, stop)
	return closeAll, nil
}

func (g *game) database() string { return filepath.Join(g.dir, "report.db") }

// serve answers HTTP requests until it is told to stop.
func serve(l net.Listener, handler http.Handler, timeout time.Duration) (stop func()) {
	server := &http.Server{Handler: handler, ReadTimeout: timeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l) // fails when it is closed
	}()
	return func() {
		server.Close()
		<-done
	}
}

func (g *game) holder(name string) (*process, error) {
	return startHolder(holderConfig{config: g.config, name: name, lock: g.lock, database: g.database(), page: g.page})
}

// contend lets A be overtaken by B.
func (g *game) contend(ctx context.Context) error {
	a, err := g.holder("A")
	if err != nil {
		return err
	}
	defer a.kill()
	granted, err := g.pauseBeforeWrite(ctx, a)
	if err != nil {
		return err
	}
	b, err := g.holder("B")
	if err != nil {
		return err
	}
	defer b.kill()
	if err := g.overtake(ctx, b, granted.Timeout); err != nil {
		return err
	}
	if err := g.writeLate(ctx, a); err != nil {
		return err
	}
	if err := g.writeAgain(ctx, b); err != nil {
		return err
	}
	return g.end(ctx, a, b)
}

// pauseBeforeWrite waits until a holds the lock and is about to write, and
// stops it there.
func (g *game) pauseBeforeWrite(ctx context.Context, a *process) (message, error) {
	granted, err := g.expect(ctx, a, eventWriting, 0)
	if err != nil {
		return granted, err
	}
	g.record.tokenA = granted.Token
	g.say("A holds the lock, with token %#x. It looks at its lease, which is good, and is about to write", granted.Token)
	if err := a.pause(); err != nil {
		return granted, err
	}
	g.say("A is stopped (SIGSTOP). Its session outlives its last ping by %v", granted.Timeout)
	// The order lies in the pipe until A goes on: there is no other look before
	// the write.
	return granted, a.proceed()
}

// overtake waits until b is granted the lock, which is when the session of the
// one who is stopped has ended, and lets it write.
func (g *game) overtake(ctx context.Context, b *process, timeout time.Duration) error {
	g.say("B asks for the lock, and waits")
	granted, err := g.expect(ctx, b, eventWriting, 2*timeout)
	if err != nil {
		return err
	}
	g.record.tokenB = granted.Token
	g.say("B holds the lock, with token %#x: A's session has ended, and A does not know", granted.Token)
	g.record.firstB, err = g.write(ctx, b)
	return err
}

// writeLate lets a go on with the write that it was about to make.
func (g *game) writeLate(ctx context.Context, a *process) error {
	g.say("A goes on (SIGCONT), with its write")
	if err := a.resume(); err != nil {
		return err
	}
	wrote, err := g.wrote(ctx, a)
	if err != nil {
		return err
	}
	g.record.lateA = wrote.Refusals
	lost, err := g.expect(ctx, a, eventLost, 0)
	if err != nil {
		return err
	}
	g.record.lostA = lost.Why
	g.say("A looks at its lease: %s", lost.Why)
	return g.look(ctx)
}

// writeAgain lets b, which still holds the lock, write with the same token.
func (g *game) writeAgain(ctx context.Context, b *process) error {
	again, err := g.expect(ctx, b, eventWriting, 0)
	if err != nil {
		return err
	}
	g.record.againB = again.Token
	g.say("B still holds the lock, and writes again with token %#x", again.Token)
	g.record.secondB, err = g.write(ctx, b)
	return err
}

func (g *game) end(ctx context.Context, holders ...*process) error {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	for _, p := range holders {
		if err := p.end(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	g.say("B has released the lock")
	return nil
}

// write lets a holder write, and returns what the resources say.
func (g *game) write(ctx context.Context, p *process) (map[string]string, error) {
	if err := p.proceed(); err != nil {
		return nil, err
	}
	wrote, err := g.wrote(ctx, p)
	return wrote.Refusals, err
}

func (g *game) wrote(ctx context.Context, p *process) (message, error) {
	wrote, err := g.expect(ctx, p, eventWrote, 0)
	if err != nil {
		return wrote, err
	}
	for _, resource := range resources {
		if why := wrote.Refusals[resource]; why != "" {
			g.say("    %s writes to the %-16s refused: %s", p.name, resource+":", why)
			continue
		}
		g.say("    %s writes to the %-16s accepted", p.name, resource+":")
	}
	return wrote, nil
}

// expect waits for a message, for a while longer than servers may take.
func (g *game) expect(ctx context.Context, p *process, event string, longer time.Duration) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, g.wait+longer)
	defer cancel()
	return p.expect(ctx, event)
}

// say prints one line with the time since the start.
func (g *game) say(format string, args ...any) {
	fmt.Fprintf(g.out, "%8.3f s  %s\n", time.Since(g.began).Seconds(), fmt.Sprintf(format, args...))
}

// clean removes the lock's path.
func (g *game) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.wait)
	defer cancel()
	err := g.judge.Delete(ctx, g.lock, framework.AnyVersion)
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	return err
}

// participants lists who stands in line.
func (g *game) participants(ctx context.Context) ([]recipes.Participant, error) {
	if err := g.judge.Sync(ctx, g.lock); err != nil {
		return nil, err
	}
	return recipes.NewInterProcessMutex(g.judge, g.lock).Participants(ctx)
}
