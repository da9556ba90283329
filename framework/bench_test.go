package framework_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
)

// BenchmarkGet compares a client with the bare driver, both against the same
// embedded server over TCP, with 1 to 512 concurrent callers:
//
//	go test -run - -bench Get -benchmem ./framework
func BenchmarkGet(b *testing.B) {
	srv, err := embedded.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ens, err := ensemble.NewFixed(addr.String())
	if err != nil {
		b.Fatal(err)
	}
	c, err := framework.New(ens)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Create(context.Background(), "/n", make([]byte, 100)); err != nil {
		b.Fatal(err)
	}
	driver, events, err := zk.Connect([]string{addr.String()}, time.Minute, zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		driver.Close()
		for range events { //nolint:revive // closed when the driver has ended
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("client/%d", callers), func(b *testing.B) {
			concurrently(b, callers, func() error {
				_, _, err := c.Get(ctx, "/n")
				return err
			})
		})
		b.Run(fmt.Sprintf("driver/%d", callers), func(b *testing.B) {
			concurrently(b, callers, func() error {
				_, _, err := driver.Get("/n")
				return err
			})
		})
	}
}

func concurrently(b *testing.B, callers int, f func() error) {
	b.ReportAllocs()
	next := make(chan struct{}, 1024)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range next {
				if err := f(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
}
