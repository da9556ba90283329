package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An Option changes one setting of a server. See [Start].
type Option func(*config)

type config struct {
	tick              time.Duration
	containerInterval time.Duration
	logger            *slog.Logger
	maxBuffer         int
	withoutContainers bool
	super             string
	wrapping          bool
	enforceQuota      bool
	maxConnections    int
	maxSessions       int
	maxWatches        watchLimits
	maxQueue          queueLimits
	maxAuth           int
	maxTree           treeLimits
}

func defaults() config {
	return config{
		tick:              2 * time.Second,
		containerInterval: time.Minute,
		logger:            slog.New(slog.DiscardHandler),
		maxBuffer:         0xfffff,
		maxConnections:    10_000,
		maxSessions:       100_000,
		maxWatches:        watchLimits{connection: 500_000, total: 5_000_000},
		maxQueue:          queueLimits{connection: 64 << 20, total: 1 << 30},
		maxAuth:           64 << 10,
		maxTree:           treeLimits{nodes: 5_000_000, bytes: 1 << 30},
	}
}

// WithTick sets the length of a tick, 2 s by default. A session's timeout is
// what the client asks for, brought into the range of 2 to 20 ticks, and
// sessions expire on ticks. Shorter ticks are for tests that need short
// sessions in real time. It must be at least 1 ms and whole milliseconds.
func WithTick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// WithContainerInterval sets how often empty containers and overdue TTL nodes
// are looked for and deleted, every 60 s by default. It must be positive. See
// [Server.ReapContainers] to do it at once.
func WithContainerInterval(d time.Duration) Option {
	return func(c *config) { c.containerInterval = d }
}

// WithLogger sets where the server logs connections that it refuses or closes
// and sessions that expire. By default it logs nothing.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithMaxBuffer sets the length in bytes of the longest request that is
// accepted, 1,048,575 by default like a real server's jute.maxbuffer. A longer
// one closes the connection.
func WithMaxBuffer(n int) Option { return func(c *config) { c.maxBuffer = n } }

// WithoutContainers makes the server answer Unimplemented when it is asked for
// a container or a TTL node, as servers do that are too old for the one or
// not configured for the other.
func WithoutContainers() Option { return func(c *config) { c.withoutContainers = true } }

// WithSuper sets the superuser, to whom no ACL applies. The digest has the
// form that a real server takes: "super:" and the base64 of the SHA-1 of
// "super:password".
func WithSuper(digest string) Option { return func(c *config) { c.super = digest } }

// WithWrappingSequence makes the counter of sequential nodes go on from
// 2147483647 to -2147483648, as ZooKeeper's did up to 3.5. By default it does
// what it has done since 3.6: it sticks, so that every later sequential node
// below that parent gets the number 2147483647, and NodeExists if that name
// is taken.
func WithWrappingSequence() Option { return func(c *config) { c.wrapping = true } }

// WithEnforcedQuotas makes the server refuse with QuotaExceeded what would go
// beyond the hard limits of a quota, as a real server does that was started
// with enforceQuota. By default quotas are counted and nothing is refused.
func WithEnforcedQuotas() Option { return func(c *config) { c.enforceQuota = true } }

// WithMaxConnections sets how many connections there may be at once, 10,000 by
// default. One more is closed as soon as it is accepted.
func WithMaxConnections(n int) Option { return func(c *config) { c.maxConnections = n } }

// WithMaxSessions sets how many sessions may live at once, 100,000 by default.
// A client that asks for one more has its connection closed.
func WithMaxSessions(n int) Option { return func(c *config) { c.maxSessions = n } }

// WithMaxWatches sets how many watches of each kind, data and children, there
// may be of one connection and in total, 500,000 and 5,000,000 by default. A
// client that leaves one more has its connection closed. Tests that find the
// leak of a watch may want it low.
func WithMaxWatches(connection, total int) Option {
	return func(c *config) { c.maxWatches = watchLimits{connection, total} }
}

// WithMaxQueue sets how many bytes of replies and watch events may wait for
// clients that do not read them: for one connection, 64 MiB by default, before
// it is closed; and for all, 1 GiB by default, before those are closed for
// which most is waiting.
func WithMaxQueue(connection, total int) Option {
	return func(c *config) { c.maxQueue = queueLimits{connection, total} }
}

// WithMaxAuth sets how many bytes the identities that one connection has proved
// may take, each 64 more than its digest is long, 64 KiB by default. A client
// that proves more has its connection closed.
func WithMaxAuth(bytes int) Option { return func(c *config) { c.maxAuth = bytes } }

// WithMaxTree sets how many nodes there may be, 5,000,000 by default, and how
// many bytes their paths, data and ACLs may take, 1 GiB by default. What would
// go beyond that is refused with QuotaExceeded.
func WithMaxTree(nodes, bytes int) Option {
	return func(c *config) { c.maxTree = treeLimits{nodes, bytes} }
}

func (c *config) validate() error {
	if c.tick < time.Millisecond || c.tick%time.Millisecond != 0 {
		return fmt.Errorf("embedded: tick of %v: whole milliseconds, at least one, are needed", c.tick)
	}
	if c.containerInterval <= 0 {
		return fmt.Errorf("embedded: container interval of %v: it must be positive", c.containerInterval)
	}
	if c.logger == nil {
		return errors.New("embedded: logger is nil")
	}
	if c.maxBuffer < minFrame || c.maxBuffer > maxFrame {
		return fmt.Errorf("embedded: max buffer of %d bytes: it must be from %d to %d", c.maxBuffer, minFrame, maxFrame)
	}
	if c.super != "" && strings.Count(c.super, ":") != 1 {
		return fmt.Errorf("embedded: super digest %q: it must be user:base64", c.super)
	}
	for what, n := range map[string]int{
		"connections": c.maxConnections, "sessions": c.maxSessions,
		"bytes queued for a connection": c.maxQueue.connection, "bytes queued": c.maxQueue.total,
		"bytes of identities": c.maxAuth, "nodes": c.maxTree.nodes, "bytes of nodes": c.maxTree.bytes,
		"watches of a connection": c.maxWatches.connection, "watches": c.maxWatches.total,
	} {
		if n < 1 {
			return fmt.Errorf("embedded: at most %d %s: it must be at least one", n, what)
		}
	}
	return nil
}

// The limits of a request's length: a connect request must fit, and an int32
// must be able to say it.
const (
	minFrame = 64
	maxFrame = 1 << 30
)
