package ensemble_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble"
)

// serverName returns the name for TLS, as the framework asks for it.
func serverName(a net.Addr) string {
	return a.(interface{ ServerName() string }).ServerName()
}

func TestFixedKeepsHostNames(t *testing.T) {
	f, err := ensemble.NewFixed("zk1.example.org.:2182,10.1.2.3,[fe80::1%eth0]", ensemble.WithShuffle(inOrder))
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := f.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range addrs {
		got = append(got, a.Network()+" "+a.String()+" "+serverName(a))
	}
	want := []string{
		"tcp zk1.example.org.:2182 zk1.example.org",
		"tcp 10.1.2.3:2181 10.1.2.3",
		"tcp [fe80::1%eth0]:2181 fe80::1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFixedShufflesEachCall(t *testing.T) {
	f, err := ensemble.NewFixed("a,b,c")
	if err != nil {
		t.Fatal(err)
	}
	first := make(map[string]int)
	const calls = 3000
	for range calls {
		addrs, err := f.Servers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first[addrs[0].String()]++
		addrs[0] = nil // the slice is the caller's
	}
	for _, host := range []string{"a:2181", "b:2181", "c:2181"} {
		// The mean is 1000, eight standard deviations are 206.
		if n := first[host]; n < 790 || n > 1210 {
			t.Errorf("%s came first in %d of %d calls", host, n, calls)
		}
	}
}

func TestFixedUsesTheGivenShuffle(t *testing.T) {
	reverse := func(n int, swap func(i, j int)) {
		for i := range n / 2 {
			swap(i, n-1-i)
		}
	}
	f, err := ensemble.NewFixed("a,b,c", ensemble.WithShuffle(reverse))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call must start from the list, not from the first
		addrs, _ := f.Servers(t.Context())
		if addrs[0].String() != "c:2181" || addrs[2].String() != "a:2181" {
			t.Errorf("got %v, want c, b, a", addrs)
		}
	}
	if _, err := ensemble.NewFixed("a", ensemble.WithShuffle(nil)); !errors.Is(err, ensemble.ErrOption) {
		t.Errorf("%v, want ErrOption", err)
	}
}

func TestServersFailOnADoneContext(t *testing.T) {
	closing := errors.New("closing")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(closing)
	f, _ := ensemble.NewFixed("10.0.0.1")
	d, _ := ensemble.NewDNS("10.0.0.1")
	for _, servers := range []func(context.Context) ([]net.Addr, error){f.Servers, d.Servers} {
		if addrs, err := servers(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, closing) {
			t.Errorf("%v, %v; want canceled and its cause", addrs, err)
		}
	}
}

// TestNilOption: it is named, and no panic.
func TestNilOption(t *testing.T) {
	if _, err := ensemble.NewFixed("a", ensemble.WithShuffle(inOrder), nil); !errors.Is(err, ensemble.ErrOption) || !strings.Contains(err.Error(), "option 1 is nil") {
		t.Error(err)
	}
	if _, err := ensemble.NewDNS("a", nil); !errors.Is(err, ensemble.ErrOption) || !strings.Contains(err.Error(), "option 0 is nil") {
		t.Error(err)
	}
}

// TestChrootForEachServer: a mistake that would pass for a strange chroot.
func TestChrootForEachServer(t *testing.T) {
	_, err := ensemble.NewFixed("zk1/app,zk2/app")
	if !errors.Is(err, ensemble.ErrConnectString) || !strings.Contains(err.Error(), "after the last server") {
		t.Error(err)
	}
}
