package ensemble_test

import (
	"context"
	"fmt"

	"github.com/batonzk/baton/ensemble"
)

func ExampleNewFixed() {
	provider, err := ensemble.NewFixed("zk1,zk2:2182,[2001:db8::7]/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	addrs, err := provider.Servers(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, addr := range addrs {
		fmt.Println(addr)
	}
	fmt.Println(provider.Chroot())
	// Unordered output:
	// zk1:2181
	// zk2:2182
	// [2001:db8::7]:2181
	// /app
}

func ExampleNewFixed_refused() {
	_, err := ensemble.NewFixed("zk1:2181,::1")
	fmt.Println(err)
	// Output: ensemble: invalid connect string: IPv6 address "::1" needs brackets: "[::1]:2181"
}

func ExampleNewDNS() {
	provider, err := ensemble.NewDNS("localhost:2181")
	if err != nil {
		fmt.Println(err)
		return
	}
	addrs, err := provider.Servers(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	// The name stays known for TLS, though the address is resolved.
	fmt.Println(addrs[0].(ensemble.Address).ServerName())
	// Output: localhost
}
