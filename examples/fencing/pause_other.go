//go:build !unix

package main

import (
	"errors"
	"os"
	"runtime"
)

// canPause says why this platform cannot stop a process.
func canPause() error {
	return errors.New("a process cannot be stopped on " + runtime.GOOS + ": this example needs SIGSTOP, which Linux, macOS and the BSDs have")
}

func stop(*os.Process) error { return canPause() }

func cont(*os.Process) error { return canPause() }
