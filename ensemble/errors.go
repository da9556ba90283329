package ensemble

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrConnectString is matched by every refusal of a connect string; the
	// error's text names the part that was refused.
	ErrConnectString = errors.New("ensemble: invalid connect string")

	// ErrOption is matched by every refusal of an option's value.
	ErrOption = errors.New("ensemble: invalid option")

	// ErrUnresolved is matched by the error of [DNS.Servers] when no name could
	// be resolved. The error's text names them all.
	ErrUnresolved = errors.New("ensemble: no server name could be resolved")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConnectString, fmt.Sprintf(format, args...))
}

// contextError returns nil while ctx is alive, then an error that matches both
// its error and its cause.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
