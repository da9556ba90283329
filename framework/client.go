package framework

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
)

// A Client is a connection to an ensemble that mends itself, or a view of one
// below a namespace. Its methods are safe for concurrent use.
type Client struct {
	core   *core
	root   *Client
	prefix string // chroot and namespace: "", or a valid path but "/"
}

// New returns a client for the servers of ens. It does no I/O; an error names
// the option that it refuses.
func New(ens Ensemble, opts ...Option) (*Client, error) {
	s := defaults()
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i)
		}
		o(&s)
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	if isNil(ens) {
		return nil, fmt.Errorf("%w: the ensemble is nil", ErrInvalidOption)
	}
	chroot := ens.Chroot()
	if chroot == "/" {
		chroot = ""
	}
	if chroot != "" {
		if err := ValidatePath(chroot); err != nil {
			return nil, fmt.Errorf("chroot: %w", err)
		}
	}
	k := newCore(ens, chroot, s)
	root := &Client{core: k, prefix: chroot}
	root.root = root
	if s.namespace == "" {
		return root, nil
	}
	return root.Namespace(s.namespace)
}

// isNil also finds a nil pointer to a provider, as is returned with an error.
func isNil(ens Ensemble) bool {
	v := reflect.ValueOf(ens)
	return ens == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// Start begins to connect, in the background, and returns at once. It returns
// [ErrStarted] the second time and [ErrClosed] after Close.
func (c *Client) Start() error {
	k := c.core
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closing:
		return ErrClosed
	case k.started:
		return ErrStarted
	}
	k.started = true
	k.goLocked(k.run)
	return nil
}

// WaitConnected blocks until the client is connected. It returns an error
// when ctx is done, which does not stop the client from trying and says why
// the last try failed, when the client is closed, and when it was not started.
func (c *Client) WaitConnected(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return c.core.noConnection(contextError(ctx))
		}
		conn, changed, err := c.core.current(nil)
		if err != nil || conn != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-c.core.ctx.Done():
		}
	}
}

// Close ends the session, on the server too if it is connected, and all that
// is held in it; completes every pending call with [ErrClosed]; and waits for
// the client's goroutines, for no longer than [WithCloseTimeout] says. Without
// a connection it takes about a second. It may be called again, and closes
// all views of the client whichever it is called on.
//
// It waits for the functions that [Client.OnState] and [Client.Go] run, so it
// must not be called from one of them.
func (c *Client) Close() error { return c.core.close() }

// State returns the state the client is in, 0 if it never connected or is
// closed.
func (c *Client) State() State {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	return c.core.state
}

// ConnectionError returns why the last connection broke or could not be made,
// nil while there is one, and before the first was tried. It does not block.
// Errors of operations that waited for a connection in vain have it already; it
// is for a service's health report.
func (c *Client) ConnectionError() error { return c.core.lastFailure() }

// OnState calls f for every state from now on, in order and leaving none out,
// on a goroutine of its own: f may block, and call the client. It is not told the
// present state: register before [Client.Start] to miss none. The returned
// function ends it, without waiting for a call that is under way; so does
// Close, which waits for that call. What f has not been called for by then is
// dropped.
func (c *Client) OnState(f func(StateChange)) (remove func()) {
	k := c.core
	l := &mailbox[StateChange]{f: f, spawn: k.goLocked}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closing {
		k.listeners = append(k.listeners, l)
	}
	return func() { k.removeListener(l) }
}

// Session returns the session that the client has, connected or suspended,
// or nil if it has none at the moment.
func (c *Client) Session() *Session {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	s := c.core.session
	if s == nil || !s.established || s.over {
		return nil
	}
	return s
}

// Namespace returns a view of the client in which every path lies below ns,
// itself below c's own namespace. With or without a leading slash, ns may
// have several components; empty, it changes nothing. The view shares the
// session, the connection and the life of c.
//
// The namespace's nodes are made, as containers, when the first node in it is
// created.
func (c *Client) Namespace(ns string) (*Client, error) {
	if ns == "" || ns == "/" {
		return c, nil
	}
	if ns[0] != '/' {
		ns = "/" + ns
	}
	if err := ValidatePath(ns); err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	return &Client{core: c.core, root: c.root, prefix: c.prefix + ns}, nil
}

// Root returns the client without any namespace. Two clients with the same
// root share one session.
func (c *Client) Root() *Client { return c.root }

// FullPath returns path as [Client.Root] knows it.
func (c *Client) FullPath(path string) string {
	return trimPrefix(c.core.chroot, addPrefix(c.prefix, path))
}

// ServerPath returns path as the servers know it, below namespace and chroot:
// the one by which other tools, and clients without a chroot, find the node.
func (c *Client) ServerPath(path string) string { return c.absolute(path) }

// Logger returns the client's logger.
func (c *Client) Logger() *slog.Logger { return c.core.logger }

// Go runs f on a goroutine that Close waits for. Once the client is closing
// it returns false and does not run f.
func (c *Client) Go(f func()) bool { return c.core.spawn(f) }

// absolute returns path as the server knows it.
func (c *Client) absolute(path string) string { return addPrefix(c.prefix, path) }

// relative undoes absolute.
func (c *Client) relative(path string) string { return trimPrefix(c.prefix, path) }
