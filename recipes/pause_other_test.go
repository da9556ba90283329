//go:build !unix

package recipes_test

// A process can be stopped, and go on, on Unix only.
const pausedHolderEnv = "BATON_TEST_PAUSED_HOLDER"

func pausedHolder(string) int { return 2 }
