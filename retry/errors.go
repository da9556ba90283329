package retry

import "errors"

// ErrInvalidPolicy is matched by every error of [Policy.Validate]; the error's
// text names the value that was refused.
var ErrInvalidPolicy = errors.New("retry: invalid policy")

// Stop marks err as final: a [Do] that gets it from its operation returns at
// once, without the mark. An error that wraps a marked one stops Do too, and
// is returned as it is. Stop(nil) is nil.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopped{err}
}

type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

func (s *stopped) Unwrap() error { return s.err }

func isStopped(err error) bool {
	var s *stopped
	return errors.As(err, &s)
}

// unmarked takes off the mark of Stop where it is outermost. A mark further
// down stays, because taking it out would lose the text around it.
func unmarked(err error) error {
	if s, ok := err.(*stopped); ok {
		return s.err
	}
	return err
}
