package recipes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/batonzk/baton/recipes"
)

func ExampleInterProcessMutex_Explain() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
	why, err := mutex.Explain(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Print(why)
	// Output:
	// lock /locks/nightly-report: free, the path does not exist
}

func ExampleExplanation_String() {
	joined := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	fmt.Print(recipes.Explanation{
		Path: "/app/locks/nightly-report", Exists: true, Session: 0x1000dca4b310001, Next: 2147480000,
		Counters: []recipes.Counter{{Path: "/app/locks/nightly-report", Next: 2147480000}},
		Holders: []recipes.Participant{{
			Name: "_c_8f8a-lock-2147479997", Data: []byte("web-3:4711"),
			SessionID: 0x1000dca4b310001, Token: 0x2a, Since: joined, Holder: true,
		}},
		Waiting: []recipes.Participant{{
			Name: "_c_51c0-lock-2147479998", Data: []byte("web-4:4711"),
			SessionID: 0x1000dca4b310002, Token: 0x2f, Since: joined.Add(time.Minute),
		}},
		Unread:  1200,
		Dead:    []recipes.Participant{{Name: "lock-2147479990", Token: 0x17, Since: joined.Add(-time.Hour), Dead: true}},
		Foreign: []string{"workid"},
	})
	// Output:
	// lock /app/locks/nightly-report: 1 hold, 1201 wait
	// holder: _c_8f8a-lock-2147479997 "web-3:4711", session 0x1000dca4b310001, token 0x2a, since 2026-05-04T03:02:01Z, this client
	// waiting: _c_51c0-lock-2147479998 "web-4:4711", session 0x1000dca4b310002, token 0x2f, since 2026-05-04T03:03:01Z
	// waiting: 1200 more, not read
	// dead: lock-2147479990 "", token 0x17, since 2026-05-04T02:02:01Z, passed over: its node is not ephemeral, nobody alive owns it
	// foreign: "workid", ignored: it takes no part in the lock
	// counter: 2147480000, 3647 before its end: delete /app/locks/nightly-report when nobody uses it
}

// A wait that takes long can say what it waits for.
func ExampleWithWaitListener() {
	client, stop := start()
	defer stop()

	ctx := context.Background()
	holder, err := recipes.NewInterProcessMutex(client, "/locks/nightly-report", recipes.WithData([]byte("web-3"))).Acquire(ctx)
	if err != nil {
		panic(err)
	}
	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report",
		recipes.WithWaitListener(func(w recipes.Wait) {
			if w.Event == recipes.WaitJoined {
				fmt.Printf("%d ahead, behind %s\n", w.Ahead, w.Behind.Data)
				go holder.Release()
				return
			}
			fmt.Println(w.Event)
		}))
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	lease.Release()
	// Output:
	// 1 ahead, behind web-3
	// granted
}

func ExampleWorkerExplanation_String() {
	claimed := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	fmt.Print(recipes.WorkerExplanation{
		Path: "/app/ids/orders", Exists: true, Layout: recipes.DefaultLayout(), Session: 0x1000dca4b310001, Last: 1023,
		Slots: []recipes.WorkerSlot{
			{
				Number: 17, Owner: "web-3:4711", Generation: 7, ReservedUntil: claimed.Add(time.Hour),
				Claims: []recipes.Participant{{
					Name: "_c_8f8a-worker-17", Data: []byte("web-3:4711"), SessionID: 0x1000dca4b310001, Token: 0x2a, Since: claimed, Holder: true,
				}},
			},
			{Number: 18, Owner: "web-4:4711", Generation: 2, ReservedUntil: claimed},
			{Number: 19, Problem: fmt.Errorf("%w: /app/ids/orders/slots/19: it holds \"x\", which is no worker's slot", recipes.ErrCorrupt)},
		},
		Foreign: []string{"slots/old"},
	})
	// Output:
	// worker numbers /app/ids/orders: of 0 to 1023, 1 are in use, 1022 free, 1 cannot be used
	// layout: 1·41·10·12 of 1ms since 2025-01-01T00:00:00Z
	// problem: number 19: corrupt data: /app/ids/orders/slots/19: it holds "x", which is no worker's slot
	// in use: number 17, by "web-3:4711", session 0x1000dca4b310001, since 2026-05-04T03:02:01Z, this client, claim 7 of it, reserved up to 2026-05-04T04:02:01.000Z
	// foreign: "slots/old", ignored: it takes no part in the numbers
}
