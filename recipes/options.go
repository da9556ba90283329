package recipes

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/batonzk/baton/framework"
)

// An Option changes one setting of a lock.
type Option func(*settings)

type settings struct {
	data           []byte
	revocation     func(*Lease)
	waiting        func(Wait)
	endWhenRevoked bool
	endWhenUnknown bool
	grace          time.Duration // 0 for none
	err            error
}

func newSettings(opts []Option) settings {
	s := settings{data: hostAndPID()}
	err := apply(&s, opts)
	s.err = both(s.err, err)
	if s.err == nil && isRequest(s.data) {
		s.err = fmt.Errorf("%w: data %q is a request for revocation", framework.ErrInvalidOption, s.data)
	}
	return s
}

// apply lets opts change s. That one of them is nil is an error, and the others
// count all the same.
func apply[S any, O ~func(*S)](s *S, opts []O) (err error) {
	for i, o := range opts {
		if o == nil {
			err = fmt.Errorf("%w: option %d is nil", framework.ErrInvalidOption, i)
			continue
		}
		o(s)
	}
	return err
}

// WithData sets what the contenders' nodes hold, for people and tools that
// look at the line, instead of the host's name and the process ID as in
// "web-3:4711". The data is copied.
func WithData(data []byte) Option {
	return func(s *settings) { s.data = bytes.Clone(data) }
}

// WithRevocationListener sets a function that hears when somebody asks for
// the lock with [Revoke], or with Curator's Revoker. It is called with the
// lease that was granted first, which knows the request, see
// [Lease.Revocation]; once for each request, on a goroutine of its own. The
// client's Close waits for it, so it must not call Close. Nothing ends unless
// the listener ends it; see [EndWhenRevoked] for the other way.
func WithRevocationListener(f func(*Lease)) Option {
	return func(s *settings) {
		if f == nil {
			s.err = fmt.Errorf("%w: revocation listener is nil", framework.ErrInvalidOption)
		}
		s.revocation = f
	}
}

// EndWhenRevoked ends a lease with [ErrRevoked] when somebody asks for the
// lock with [Revoke]. Its contexts end, so that the work can stop, and its
// state is [LeaseRevoked]; the lock stays closed to others until the lease is
// released.
func EndWhenRevoked() Option {
	return func(s *settings) { s.endWhenRevoked = true }
}

// EndWhenUnknown ends a lease with [ErrLost] as soon as the connection is
// suspended, Curator's standard error policy, instead of when the session's
// deadline has passed. It stops work early, and often needlessly, where doubt
// costs more than a pause.
func EndWhenUnknown() Option {
	return func(s *settings) { s.endWhenUnknown = true }
}

var hostAndPID = sync.OnceValue(func() []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return []byte(host + ":" + strconv.Itoa(os.Getpid()))
})
