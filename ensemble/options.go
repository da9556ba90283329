package ensemble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// FixedOption changes what [NewFixed] makes.
type FixedOption interface{ applyFixed(*Fixed) }

// DNSOption changes what [NewDNS] makes.
type DNSOption interface{ applyDNS(*DNS) }

// SharedOption fits both constructors.
type SharedOption interface {
	FixedOption
	DNSOption
}

// Resolver finds the IP addresses of a host; *net.Resolver is one. It must be
// safe for concurrent use, and return soon after ctx is done.
type Resolver interface {
	LookupHost(ctx context.Context, host string) (addrs []string, err error)
}

type shuffleOption func(n int, swap func(i, j int))

// WithShuffle sets what puts the addresses in order, with the signature and
// the meaning of [rand.Shuffle], which is the default. It must be safe for
// concurrent use. Tests use it to make the order known.
func WithShuffle(shuffle func(n int, swap func(i, j int))) SharedOption {
	return shuffleOption(shuffle)
}

func (o shuffleOption) applyFixed(f *Fixed) { f.shuffle = o }

func (o shuffleOption) applyDNS(d *DNS) { d.shuffle = o }

type dnsOption func(*DNS)

func (o dnsOption) applyDNS(d *DNS) { o(d) }

// WithResolver sets what resolves names, [net.DefaultResolver] by default.
func WithResolver(r Resolver) DNSOption {
	return dnsOption(func(d *DNS) { d.resolver = r })
}

// WithLookupTimeout sets how long one name may take to resolve, 3 s by
// default, so that a name server that does not answer for one name leaves the
// others usable.
func WithLookupTimeout(timeout time.Duration) DNSOption {
	return dnsOption(func(d *DNS) { d.timeout = timeout })
}

// list is what both providers share. It does not change once it is made.
type list struct {
	servers []Address
	chroot  string
	shuffle shuffleOption
}

func newList(connect string) (list, error) {
	servers, chroot, err := parse(connect)
	return list{servers: servers, chroot: chroot, shuffle: rand.Shuffle}, err
}

func (l *list) validate() error {
	if l.shuffle == nil {
		return fmt.Errorf("%w: the shuffle function is nil", ErrOption)
	}
	return nil
}

// Chroot returns the path below which the client sees everything, "" for none.
// It does not block.
func (l *list) Chroot() string { return l.chroot }
