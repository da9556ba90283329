package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/batonzk/baton/retry"
)

// An Ensemble says where the servers are. Package ensemble has the usual
// ones; an embedded server is one too.
type Ensemble interface {
	// Servers returns the addresses for one round of attempts, in the order
	// to try them. It is called anew for each round and returns when ctx is
	// done. An address that has a method ServerName() string says by it what
	// name a TLS certificate must carry.
	Servers(ctx context.Context) ([]net.Addr, error)
	// Chroot returns the path below which the client's whole world lies, ""
	// for none.
	Chroot() string
}

// DialFunc dials one server. It must return when ctx is done.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// credentials authenticate a connection.
type credentials struct {
	scheme string // such as "digest"
	auth   []byte // such as "user:password"
}

// validate says nothing of the secret.
func (c credentials) validate() error {
	switch user, _, ok := bytes.Cut(c.auth, []byte(":")); {
	case c.scheme == "":
		return fmt.Errorf("%w: authentication scheme %q", ErrInvalidOption, c.scheme)
	case strings.EqualFold(c.scheme, "sasl"):
		return fmt.Errorf("%w: authentication scheme %q: SASL is not supported", ErrInvalidOption, c.scheme)
	case c.scheme == "digest" && (!ok || len(user) == 0):
		return fmt.Errorf("%w: digest credentials that do not have the form user:password", ErrInvalidOption)
	}
	return nil
}

// An Option changes one setting of a [Client].
type Option func(*settings)

type settings struct {
	sessionTimeout    time.Duration
	connectionTimeout time.Duration
	dialTimeout       time.Duration
	closeTimeout      time.Duration
	retry             retry.Policy
	reconnect         retry.Policy
	namespace         string
	acl               ACLProvider
	auth              []credentials
	tls               *tls.Config
	dial              DialFunc
	nilDial, nilTLS   bool // what was given instead
	logger            *slog.Logger
	hooks             []Hook
	maxRequest        int
	maxReply          int
	maxInFlight       int
	plainParents      bool
	readOnly          bool
}

func defaults() settings {
	return settings{
		sessionTimeout:    60 * time.Second,
		connectionTimeout: 15 * time.Second,
		dialTimeout:       5 * time.Second,
		closeTimeout:      5 * time.Second,
		retry:             retry.BoundedExponential(50*time.Millisecond, 2*time.Second, 5),
		reconnect:         retry.BoundedExponential(20*time.Millisecond, 5*time.Second, retry.Unlimited),
		acl:               func(string) []ACL { return WorldACL(PermAll) },
		logger:            slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		maxRequest:        1<<20 - 1,
		maxReply:          64 << 20,
		maxInFlight:       1000,
	}
}

// minSize is room enough for a request or a reply without much data.
const minSize = 1024

func (s *settings) validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"session timeout", s.sessionTimeout},
		{"connection timeout", s.connectionTimeout},
		{"dial timeout", s.dialTimeout},
		{"close timeout", s.closeTimeout},
	} {
		if d.d <= 0 {
			return fmt.Errorf("%w: %s %v is not positive", ErrInvalidOption, d.name, d.d)
		}
	}
	if ms := s.sessionTimeout.Milliseconds(); ms < 1 || ms > 1<<31-1 {
		return fmt.Errorf("%w: session timeout %v is not between 1 ms and 2147483647 ms", ErrInvalidOption, s.sessionTimeout)
	}
	if err := s.retry.Validate(); err != nil {
		return fmt.Errorf("%w: retry policy: %w", ErrInvalidOption, err)
	}
	if err := s.reconnect.Validate(); err != nil {
		return fmt.Errorf("%w: reconnect policy: %w", ErrInvalidOption, err)
	}
	if s.maxRequest < minSize {
		return fmt.Errorf("%w: largest request of %d bytes, at least %d are needed", ErrInvalidOption, s.maxRequest, minSize)
	}
	if s.maxReply < minSize {
		return fmt.Errorf("%w: largest reply of %d bytes, at least %d are needed", ErrInvalidOption, s.maxReply, minSize)
	}
	if s.maxInFlight < 1 {
		return fmt.Errorf("%w: %d requests in flight", ErrInvalidOption, s.maxInFlight)
	}
	switch {
	case s.acl == nil:
		return fmt.Errorf("%w: the ACL provider is nil", ErrInvalidOption)
	case s.logger == nil:
		return fmt.Errorf("%w: the logger is nil", ErrInvalidOption)
	case s.nilDial:
		return fmt.Errorf("%w: the dialer is nil", ErrInvalidOption)
	case s.nilTLS:
		return fmt.Errorf("%w: the TLS config is nil", ErrInvalidOption)
	}
	for _, c := range s.auth {
		if err := c.validate(); err != nil {
			return err
		}
	}
	for _, h := range s.hooks {
		if !isHook(h) {
			return fmt.Errorf("%w: %T is no hook", ErrInvalidOption, h)
		}
	}
	return nil
}

// WithSessionTimeout asks the server for a session timeout other than 60 s:
// how long the session, and all that is held in it, outlives its connection.
// The server may grant another; [Session.Timeout] has the result.
func WithSessionTimeout(d time.Duration) Option {
	return func(s *settings) { s.sessionTimeout = d }
}

// WithConnectionTimeout sets how long one try of an operation waits for a
// connection before it counts as failed; 15 s unless set.
func WithConnectionTimeout(d time.Duration) Option {
	return func(s *settings) { s.connectionTimeout = d }
}

// WithDialTimeout bounds the dialling of one server, TLS handshake included;
// 5 s unless set, and never more than a third of the session timeout.
func WithDialTimeout(d time.Duration) Option {
	return func(s *settings) { s.dialTimeout = d }
}

// WithCloseTimeout bounds how long [Client.Close] waits for the client's
// goroutines; 5 s unless set.
func WithCloseTimeout(d time.Duration) Option {
	return func(s *settings) { s.closeTimeout = d }
}

// WithRetry sets the policy by which an operation is tried again after a
// connection loss, unless the context it is called with already carries a
// budget (see package retry).
func WithRetry(p retry.Policy) Option {
	return func(s *settings) { s.retry = p }
}

// WithReconnect sets the pauses between rounds of connection attempts; from
// 20 ms, doubling up to 5 s, unless set. A policy that ends is started again: a
// client never gives up. While there is a session to be saved, no pause is
// longer than a third of what is left of its timeout.
func WithReconnect(p retry.Policy) Option {
	return func(s *settings) { s.reconnect = p }
}

// WithNamespace puts every path of the client below a namespace; see
// [Client.Namespace].
func WithNamespace(ns string) Option {
	return func(s *settings) { s.namespace = ns }
}

// WithACLProvider sets the ACLs of the nodes the client creates, parents
// included; everybody may do everything unless set.
func WithACLProvider(p ACLProvider) Option {
	return func(s *settings) { s.acl = p }
}

// WithAuth adds credentials, of scheme "digest" in the form user:password.
// They are sent first on every new connection, which counts as established
// when the server has accepted them all. While it refuses, operations and
// [Client.WaitConnected] fail with [ErrAuthFailed]; the client tries again in
// the background.
func WithAuth(scheme string, auth []byte) Option {
	return func(s *settings) {
		s.auth = append(s.auth, credentials{scheme: scheme, auth: bytes.Clone(auth)})
	}
}

// WithTLS encrypts connections. A config without a ServerName gets, for each
// connection, the host name of the server as the ensemble knows it. A
// config must not be changed once it is given.
func WithTLS(cfg *tls.Config) Option {
	return func(s *settings) { s.tls, s.nilTLS = cfg, cfg == nil }
}

// WithDialer sets how servers are dialled. It goes before an ensemble that
// dials by itself, as an embedded server does.
func WithDialer(dial DialFunc) Option {
	return func(s *settings) { s.dial, s.nilDial = dial, dial == nil }
}

// WithLogger sets where the client reports what no return value can tell. It
// is silent unless set.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) { s.logger = l }
}

// WithHooks adds hooks; see [Hook].
func WithHooks(hooks ...Hook) Option {
	return func(s *settings) { s.hooks = append(s.hooks, hooks...) }
}

// WithMaxRequest sets the size in bytes above which a request is refused
// with [ErrTooLarge] before it is sent. It must not exceed the servers'
// jute.maxbuffer, whose default of 1 MiB less one byte is the default here: a
// server answers a larger request by cutting the connection.
func WithMaxRequest(bytes int) Option {
	return func(s *settings) { s.maxRequest = bytes }
}

// WithMaxReply sets the size in bytes of the largest reply that is accepted,
// 64 MiB unless set. A larger one is taken for garbage and ends the
// connection.
func WithMaxReply(bytes int) Option {
	return func(s *settings) { s.maxReply = bytes }
}

// WithMaxInFlight sets how many operations may await their replies at a time,
// 1000 unless set. More wait their turn. The reads by which watches are set
// again on a new connection are not counted.
func WithMaxInFlight(n int) Option {
	return func(s *settings) { s.maxInFlight = n }
}

// WithoutContainers makes parents as persistent nodes, which stay, instead of
// containers, which the server removes once they are empty.
func WithoutContainers() Option {
	return func(s *settings) { s.plainParents = true }
}

// WithReadOnly lets the client connect to a server that has lost its quorum
// and serves reads only. The state is then [ReadOnly].
func WithReadOnly() Option {
	return func(s *settings) { s.readOnly = true }
}
