package ensemble_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble"
)

// table is a resolver that knows some names. A name with nil as its addresses
// is never answered; others are not found.
type table map[string][]string

var errNotFound = errors.New("no such host")

func (r table) LookupHost(ctx context.Context, host string) ([]string, error) {
	addrs, ok := r[host]
	if !ok {
		return nil, errNotFound
	}
	if addrs == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return addrs, nil
}

func newDNS(t *testing.T, connect string, opts ...ensemble.DNSOption) *ensemble.DNS {
	t.Helper()
	d, err := ensemble.NewDNS(connect, append(opts, ensemble.WithShuffle(inOrder))...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// resolved returns "address name" for each server.
func resolved(t *testing.T, d *ensemble.DNS) []string {
	t.Helper()
	addrs, err := d.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		out = append(out, a.String()+" "+serverName(a))
	}
	return out
}

func TestDNSGivesAllAddresses(t *testing.T) {
	d := newDNS(t, "zk:2182,10.9.9.9,other./app", ensemble.WithResolver(table{
		"zk":     {"10.0.0.1", "2001:db8::1", "10.0.0.1", "::ffff:10.0.0.2"},
		"other.": {"10.0.0.1", "fe80::1%eth0", "nonsense"},
	}))
	want := []string{
		"10.0.0.1:2182 zk", "[2001:db8::1]:2182 zk", "10.0.0.2:2182 zk",
		"10.9.9.9:2181 10.9.9.9",
		"10.0.0.1:2181 other", "[fe80::1%eth0]:2181 other",
	}
	if got := resolved(t, d); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if d.Chroot() != "/app" {
		t.Errorf("chroot %q, want /app", d.Chroot())
	}
}

func TestDNSResolvesAtEachCall(t *testing.T) {
	names := table{"zk": {"10.0.0.1"}}
	d := newDNS(t, "zk", ensemble.WithResolver(names))
	before := resolved(t, d)
	names["zk"] = []string{"10.0.0.2", "10.0.0.3"}
	after := resolved(t, d)
	if !slices.Equal(before, []string{"10.0.0.1:2181 zk"}) ||
		!slices.Equal(after, []string{"10.0.0.2:2181 zk", "10.0.0.3:2181 zk"}) {
		t.Errorf("first %q, then %q", before, after)
	}
}

func TestDNSLeavesOutWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDNS(t, "gone,silent,zk,empty,nonsense", ensemble.WithLookupTimeout(2*time.Second), ensemble.WithResolver(table{
			"zk": {"10.0.0.1"}, "silent": nil, "empty": {}, "nonsense": {"zk"},
		}))
		start := time.Now()
		if got := resolved(t, d); !slices.Equal(got, []string{"10.0.0.1:2181 zk"}) {
			t.Errorf("got %q, want zk alone", got)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want the lookup timeout, 2s", took)
		}
	})
}

func TestDNSFailsWhenAllNamesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDNS(t, "gone,silent,empty", ensemble.WithResolver(table{"silent": nil, "empty": {}}))
		_, err := d.Servers(t.Context())
		for _, want := range []error{ensemble.ErrUnresolved, errNotFound, context.DeadlineExceeded} {
			if !errors.Is(err, want) {
				t.Errorf("%v does not match %v", err, want)
			}
		}
		for _, name := range []string{"gone", "silent", "empty"} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	})
}

func TestDNSEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDNS(t, "silent,zk", ensemble.WithResolver(table{"silent": nil, "zk": {"10.0.0.1"}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := d.Servers(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the deadline after 1s", err, time.Since(start))
		}
	})
}

func TestDNSIsSafeConcurrently(t *testing.T) {
	d, err := ensemble.NewDNS("a,b,c", ensemble.WithResolver(table{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if addrs, err := d.Servers(t.Context()); err != nil || len(addrs) != 3 {
				t.Errorf("%v, %v; want three", addrs, err)
			}
		})
	}
	wg.Wait()
}

func TestDNSRefusesOptions(t *testing.T) {
	for value, opt := range map[string]ensemble.DNSOption{
		"resolver": ensemble.WithResolver(nil),
		"0s":       ensemble.WithLookupTimeout(0),
		"-1s":      ensemble.WithLookupTimeout(-time.Second),
		"shuffle":  ensemble.WithShuffle(nil),
	} {
		_, err := ensemble.NewDNS("zk", opt)
		if !errors.Is(err, ensemble.ErrOption) || !strings.Contains(err.Error(), value) {
			t.Errorf("%v, want ErrOption naming %s", err, value)
		}
	}
}
