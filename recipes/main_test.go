package recipes_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(pausedHolderEnv); address != "" {
		os.Exit(pausedHolder(address))
	}
	goleak.VerifyTestMain(m)
}
