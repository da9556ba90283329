package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

const defaultLookupTimeout = 3 * time.Second

// DNS is a list of names that are resolved anew at each call of Servers, for
// ensembles whose members change their addresses. It is safe for concurrent
// use, keeps nothing between calls, and caches nothing.
type DNS struct {
	list
	resolver Resolver
	timeout  time.Duration
}

// NewDNS makes a provider from a connect string, such as "zookeeper:2181/app",
// where a name may have any number of addresses; the package comment has the
// details. IP addresses may be among the names. It does no I/O. Its errors
// match [ErrConnectString] or [ErrOption].
func NewDNS(connect string, opts ...DNSOption) (*DNS, error) {
	l, err := newList(connect)
	if err != nil {
		return nil, err
	}
	d := &DNS{list: l, resolver: net.DefaultResolver, timeout: defaultLookupTimeout}
	for i, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: option %d is nil", ErrOption, i)
		}
		opt.applyDNS(d)
	}
	if err := d.validate(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *DNS) validate() error {
	switch {
	case d.resolver == nil:
		return fmt.Errorf("%w: the resolver is nil", ErrOption)
	case d.timeout <= 0:
		return fmt.Errorf("%w: lookup timeout %v is not positive", ErrOption, d.timeout)
	}
	return d.list.validate()
}

// Servers resolves all names at once, and returns every address of each, IPv4
// and IPv6, in a new random order. The caller owns the slice, whose elements
// are of type [Address].
//
// A name that cannot be resolved is left out. If that leaves no address, the
// error matches [ErrUnresolved] and the errors of all lookups. Servers blocks
// until the slowest lookup has ended, at most the lookup timeout, or ctx is
// done; then it fails.
func (d *DNS) Servers(ctx context.Context) ([]net.Addr, error) {
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	found := make([][]Address, len(d.servers))
	errs := make([]error, len(d.servers))
	var wg sync.WaitGroup
	for i, server := range d.servers {
		if server.isIP() {
			found[i] = []Address{server}
			continue
		}
		wg.Go(func() { found[i], errs[i] = d.resolve(ctx, server) })
	}
	wg.Wait()
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	all := distinct(found)
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnresolved, errors.Join(errs...))
	}
	return d.shuffled(all), nil
}

// resolve returns all addresses of one server. An answer that is not an IP
// address is passed over, as long as there is another.
func (d *DNS) resolve(ctx context.Context, server Address) ([]Address, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	answers, err := d.resolver.LookupHost(ctx, server.host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", server.host, err)
	}
	var addrs []Address
	for _, answer := range answers {
		if ip, err := netip.ParseAddr(answer); err == nil {
			addrs = append(addrs, server.at(ip.Unmap()))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s: no IP address among the answers %q", server.host, answers)
	}
	return addrs, nil
}

// distinct returns all addresses, each once. Two names for one IP address are
// two addresses, because a certificate may be valid for one of them only.
func distinct(lists [][]Address) []Address {
	var all []Address
	seen := make(map[Address]bool)
	for _, list := range lists {
		for _, a := range list {
			if !seen[a] {
				seen[a] = true
				all = append(all, a)
			}
		}
	}
	return all
}
