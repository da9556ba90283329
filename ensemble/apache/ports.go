package apache

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// choosePorts returns ports for n servers that are free at this moment. They
// lie below the range from which the kernel takes the ports of outgoing
// connections: otherwise any client could take the port of a server that is
// down for a restart.
func choosePorts(n int) ([]ports, error) {
	const low = 10_000
	high := firstEphemeralPort()
	taken := make(map[int]bool)
	next := func() (int, error) {
		for range 1000 {
			port := low + rand.IntN(high-low)
			if !taken[port] && free(port) {
				taken[port] = true
				return port, nil
			}
		}
		return 0, fmt.Errorf("apache: no free port from %d to %d", low, high-1)
	}
	members := make([]ports, n)
	for i := range members {
		for _, port := range []*int{&members[i].client, &members[i].quorum, &members[i].election} {
			var err error
			if *port, err = next(); err != nil {
				return nil, err
			}
		}
	}
	return members, nil
}

// firstEphemeralPort returns the end of the ports to choose from.
func firstEphemeralPort() int {
	const usual = 32_768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil || first < 15_000 {
		return usual // taken ports make Start try again
	}
	return first
}

func free(port int) bool {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
