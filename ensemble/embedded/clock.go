package embedded

import (
	"sync/atomic"
	"time"
)

// A clock is the server's idea of time: the machine's, ahead by what
// [Server.Advance] has added. It may be used by many goroutines at once.
type clock struct {
	start time.Time
	ahead atomic.Int64 // nanoseconds
}

func newClock() *clock { return &clock{start: time.Now()} }

// elapsed returns the time since the clock was made. It never goes back.
func (c *clock) elapsed() time.Duration {
	return time.Since(c.start) + time.Duration(c.ahead.Load())
}

// millis returns the wall clock in milliseconds since 1970.
func (c *clock) millis() int64 {
	return time.Now().Add(time.Duration(c.ahead.Load())).UnixMilli()
}
