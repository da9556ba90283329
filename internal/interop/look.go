//go:build linux

package interop

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/batonzk/baton/framework"
)

// A Look is what a lease of a Go peer says of itself, in the order in which it
// was asked, each as a kind of error: "ok" for none, "lost", "nonode" and so
// on.
type Look struct {
	Began time.Duration // before anything was asked
	Asked time.Duration // after Err and Context had answered, which do not block

	Err     string // Lease.Err
	Context string // Err of the lease's context
	Done    bool   // the channels of lease and context are closed

	Reentry string // Acquire with the lease's context
	Check   string // a Multi with Lease.Check, and a node to be created
	// Stale is a Multi with a Check that was taken at the grant: one that was
	// on its way when the process stopped, and that is the servers' to refuse.
	Stale string
}

// Written returns the paths of the nodes that the two Multis of a look at the
// lock at path would create.
func Written(path string) []string { return []string{path + "-check", path + "-stale"} }

// ParseLook reads the answer to the verbs look and stop.
func ParseLook(m Message) (Look, error) {
	var l Look
	_, err := fmt.Sscan(fmt.Sprintln(anys(m.Words)...), &l.Began, &l.Asked,
		&l.Err, &l.Context, &l.Done, &l.Reentry, &l.Check, &l.Stale)
	return l, err
}

func anys(words []string) []any {
	as := make([]any, len(words))
	for i, w := range words {
		as[i] = w
	}
	return as
}

func (l *goLock) look() ([]string, error) {
	h, err := l.holding()
	if err != nil {
		return nil, err
	}
	began := Monotonic()
	return l.rest(h, began, h.lease.Err()), nil
}

// stop stops the process, and looks as soon as it goes on. The goroutine has
// just been scheduled and keeps its processor, so that with GOMAXPROCS=1
// nothing can come before the look: no timer, no other goroutine.
func (l *goLock) stop() ([]string, error) {
	h, err := l.holding()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid := os.Getpid()
	runtime.Gosched()
	// A thread that signals itself does not come back from the system call
	// before it was stopped.
	tid, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0)
	_, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), tid, uintptr(syscall.SIGSTOP))
	began := Monotonic()
	err = h.lease.Err()
	if errno != 0 {
		return nil, errno
	}
	return l.rest(h, began, err), nil
}

// rest asks what is left to ask once the lease's Err has answered.
func (l *goLock) rest(h *held, began time.Duration, err error) []string {
	ctxErr := kindOf(h.ctx.Err())
	if ctxErr == "canceled" {
		ctxErr = kindOf(context.Cause(h.ctx))
	}
	asked := Monotonic()
	done := isClosed(h.lease.Done()) && isClosed(h.ctx.Done())
	written := Written(l.path)
	return []string{
		strconv.FormatInt(int64(began), 10), strconv.FormatInt(int64(asked), 10),
		kindOf(err), ctxErr, strconv.FormatBool(done),
		l.reenter(h), l.multi(h.lease.Check(), written[0]), l.multi(h.check, written[1]),
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *goLock) reenter(h *held) string {
	again, err := l.recipe().Acquire(h.ctx)
	if err == nil {
		err = again.Release()
	}
	return kindOf(err)
}

// multi creates a node on the condition that check holds.
func (l *goLock) multi(check framework.Op, path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := l.client.Multi(ctx, check, framework.CreateOp(path, nil, framework.Persistent))
	return kindOf(err)
}
