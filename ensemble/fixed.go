package ensemble

import (
	"context"
	"fmt"
	"net"
)

// Fixed is a list of servers that does not change. It is safe for concurrent
// use.
type Fixed struct{ list }

// NewFixed makes a provider from a connect string, such as
// "host:port,host:port/chroot"; the package comment has the details. It does
// no I/O. Its errors match [ErrConnectString] or [ErrOption].
func NewFixed(connect string, opts ...FixedOption) (*Fixed, error) {
	l, err := newList(connect)
	if err != nil {
		return nil, err
	}
	f := &Fixed{l}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrOption, i)
		}
		opt.applyFixed(f)
	}
	if err := f.validate(); err != nil {
		return nil, err
	}
	return f, nil
}

// Servers returns the list in a new random order. The caller owns the slice,
// whose elements are of type [Address]. Servers does not block and fails only
// when ctx is done.
func (f *Fixed) Servers(ctx context.Context) ([]net.Addr, error) {
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	return f.shuffled(f.servers), nil
}

// shuffled returns a copy of addrs in a new order.
func (l *list) shuffled(addrs []Address) []net.Addr {
	out := make([]net.Addr, len(addrs))
	for i, a := range addrs {
		out[i] = a
	}
	l.shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
