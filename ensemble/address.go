package ensemble

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is where a server is reached. It implements net.Addr, is comparable,
// and is an immutable value.
type Address struct {
	dial string // host name or IP address, without brackets
	port uint16
	host string // as in the connect string, without brackets
}

// Network returns "tcp".
func (a Address) Network() string { return "tcp" }

// String returns "host:port", ready for dialing, an IPv6 host in brackets.
func (a Address) String() string {
	return net.JoinHostPort(a.dial, strconv.Itoa(int(a.port)))
}

// ServerName returns the host as the connect string has it, which is what the
// server's certificate has to be valid for: a name without final dot, or an IP
// address without brackets and zone. It stays the same when the name was
// resolved to an IP address.
func (a Address) ServerName() string {
	if ip, err := netip.ParseAddr(a.host); err == nil {
		return ip.WithZone("").String()
	}
	return strings.TrimSuffix(a.host, ".")
}

// isIP reports whether a needs no resolving.
func (a Address) isIP() bool {
	_, err := netip.ParseAddr(a.dial)
	return err == nil
}

// at returns a, found at the given IP address.
func (a Address) at(ip netip.Addr) Address {
	a.dial = ip.String()
	return a
}
