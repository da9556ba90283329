//go:build !linux

package embedded_test

import "time"

// threadTime is not known here.
func threadTime() time.Duration { return 0 }
