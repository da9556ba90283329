package apache

import "errors"

var (
	// ErrNotInstalled is matched by the errors of [Installed]. The text names
	// the Debian package to install.
	ErrNotInstalled = errors.New("apache: ZooKeeper is not installed")

	// ErrOption is matched by every refusal of a value given to [Start].
	ErrOption = errors.New("apache: invalid option")

	// ErrNotRunning is returned where a running server is needed.
	ErrNotRunning = errors.New("apache: server is not running")

	// ErrClosed is returned after [Ensemble.Close].
	ErrClosed = errors.New("apache: ensemble is closed")

	// ErrExited is matched by the error that tells of a server which ended by
	// itself. The text has the end of its log.
	ErrExited = errors.New("apache: server has ended by itself")

	// errPortTaken goes with ErrExited if a port was the reason.
	errPortTaken = errors.New("port is taken")
)
