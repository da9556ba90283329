package ensemble

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const defaultPort = 2181

// parse takes a connect string apart. The chroot is "" if there is none.
func parse(connect string) (servers []Address, chroot string, err error) {
	if strings.Contains(connect, "://") {
		return nil, "", refuse("%q is a URL, want host:port,host:port/chroot", connect)
	}
	hosts := strings.TrimSpace(connect)
	if slash := strings.IndexByte(hosts, '/'); slash >= 0 {
		hosts, chroot = hosts[:slash], hosts[slash:]
	}
	if strings.TrimSpace(hosts) == "" {
		return nil, "", refuse("no server in %q", connect)
	}
	if chroot, err = parseChroot(chroot); err != nil {
		return nil, "", err
	}
	seen := make(map[string]bool)
	for i, entry := range strings.Split(hosts, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			return nil, "", refuse("entry %d of %q is empty", i+1, hosts)
		}
		server, err := parseServer(entry)
		if err != nil {
			return nil, "", err
		}
		if key := strings.ToLower(server.String()); !seen[key] {
			seen[key] = true
			servers = append(servers, server)
		}
	}
	return servers, chroot, nil
}

// parseServer reads "host", "host:port", "[ipv6]" or "[ipv6]:port".
func parseServer(entry string) (Address, error) {
	host, port, hasPort, err := splitPort(entry)
	if err != nil {
		return Address{}, err
	}
	server := Address{dial: host, host: host, port: defaultPort}
	if !hasPort {
		return server, nil
	}
	server.port, err = parsePort(port, entry)
	return server, err
}

// splitPort separates the port, if there is one, and validates the host.
func splitPort(entry string) (host, port string, hasPort bool, err error) {
	if strings.HasPrefix(entry, "[") {
		return splitBracketed(entry)
	}
	if _, err := netip.ParseAddr(entry); err == nil && strings.Contains(entry, ":") {
		return "", "", false, refuse("IPv6 address %q needs brackets: \"[%s]:%d\"", entry, entry, defaultPort)
	}
	host, port, hasPort = strings.Cut(entry, ":")
	if strings.Contains(port, ":") {
		return "", "", false, refuse("more than one colon in %q; an IPv6 address needs brackets", entry)
	}
	return host, port, hasPort, checkHost(host, entry)
}

func splitBracketed(entry string) (host, port string, hasPort bool, err error) {
	inside, rest, closed := strings.Cut(entry[1:], "]")
	if !closed {
		return "", "", false, refuse("bracket not closed in %q", entry)
	}
	ip, err := netip.ParseAddr(inside)
	if err != nil || !ip.Is6() {
		return "", "", false, refuse("no IPv6 address between the brackets of %q", entry)
	}
	if rest == "" {
		return ip.String(), "", false, nil
	}
	port, hasPort = strings.CutPrefix(rest, ":")
	if !hasPort {
		return "", "", false, refuse("%q after the bracket in %q, want a colon and a port", rest, entry)
	}
	return ip.String(), port, true, nil
}

func parsePort(port, entry string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return 0, refuse("port %q in %q is not a number from 1 to 65535", port, entry)
	}
	return uint16(n), nil
}

// checkHost accepts IPv4 addresses and host names of letters, digits, hyphens
// and underscores; the last are no host names by RFC 952, but in use.
func checkHost(host, entry string) error {
	if host == "" {
		return refuse("no host in %q", entry)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	labels := strings.Split(name, ".")
	if len(name) > 253 || slices.ContainsFunc(labels, badLabel) {
		return refuse("%q in %q is not a host name", host, entry)
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return refuse("%q in %q is neither an IPv4 address nor a host name", host, entry)
	}
	return nil
}

func badLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return true
	}
	return strings.ContainsFunc(label, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && !(r >= '0' && r <= '9') && r != '-' && r != '_'
	})
}
