package recipes_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(idProcessVariable); addr != "" {
		os.Exit(makeIDs(addr, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
