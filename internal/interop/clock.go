//go:build linux

package interop

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC, see clock_gettime(2). Go's own monotonic
// clock and Java's System.nanoTime are it, too, on Linux.
const clockMonotonic = 1

// Monotonic returns the time on the clock that all processes of the machine
// share and nobody can set.
func Monotonic() time.Duration {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic(errno) // there is no Linux without this clock
	}
	return time.Duration(t.Nano())
}
