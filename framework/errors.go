package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// What the server answered, or could not answer. An operation's error is an
// [*Error] that wraps one of these, so that [errors.Is] finds them.
var (
	// ErrNoNode: there is no node at the path or, of a create, no parent.
	ErrNoNode = errors.New("framework: node does not exist")
	// ErrNodeExists: a node to be created is there already.
	ErrNodeExists = errors.New("framework: node exists")
	// ErrBadVersion: the node, or its ACL, has another version than was asked for.
	ErrBadVersion = errors.New("framework: version does not match")
	// ErrNotEmpty: a node to be deleted has children; see [WithChildren].
	ErrNotEmpty = errors.New("framework: node has children")
	// ErrNoChildrenForEphemerals: the parent of a node to be created is ephemeral.
	ErrNoChildrenForEphemerals = errors.New("framework: ephemeral nodes may not have children")
	// ErrNoAuth: the ACL of the node or of its parent forbids it.
	ErrNoAuth = errors.New("framework: not authorised")
	// ErrInvalidACL: the ACL is empty or names what the server does not know.
	ErrInvalidACL = errors.New("framework: invalid ACL")
	// ErrAuthFailed: the server refuses the client's credentials. The client
	// goes on trying, in case another server accepts them.
	ErrAuthFailed = errors.New("framework: authentication failed")
	// ErrUnimplemented: the server does not know the operation, or has it
	// switched off, as TTL nodes are unless its extended types are enabled.
	ErrUnimplemented = errors.New("framework: the server does not implement the operation")
	// ErrBadArguments: the server finds the request malformed.
	ErrBadArguments = errors.New("framework: bad arguments")
	// ErrReadOnly: a write was sent to a server that has lost its quorum; see
	// [WithReadOnly].
	ErrReadOnly = errors.New("framework: the server is read-only")
	// ErrQuotaExceeded: the write would exceed a quota that the server enforces.
	ErrQuotaExceeded = errors.New("framework: quota exceeded")
	// ErrRolledBack: the outcome of an operation of a [Client.Multi] that did
	// not fail itself.
	ErrRolledBack = errors.New("framework: rolled back, another operation of the multi failed")
	// ErrServer: any other answer; [Error.Code] has the server's code.
	ErrServer = errors.New("framework: the server refused the operation")
)

// What happened to the connection, the session or the client.
var (
	// ErrConnectionLoss says that the connection broke, or that there was
	// none within the connection timeout. See [Error.Unknown] for whether the
	// operation may have been executed.
	ErrConnectionLoss = errors.New("framework: connection lost")
	// ErrSessionLost says that the session has ended: the server said so, or
	// the local deadline passed without an answer from any server.
	ErrSessionLost = errors.New("framework: session lost")
	// ErrTooLarge says that a request exceeds the server's limit. It was not sent.
	ErrTooLarge = errors.New("framework: request too large")
	// ErrInvalidPath says that a path breaks ZooKeeper's rules. Nothing was sent.
	ErrInvalidPath = errors.New("framework: invalid path")
	// ErrInvalidOption names an option or argument that makes no sense. Nothing was sent.
	ErrInvalidOption = errors.New("framework: invalid option")
	// ErrNotStarted says that [Client.Start] was not called yet.
	ErrNotStarted = errors.New("framework: client not started")
	// ErrStarted says that [Client.Start] was called before.
	ErrStarted = errors.New("framework: client already started")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("framework: client closed")
)

// An Error is the failure of one operation.
type Error struct {
	Op string // ZooKeeper's name of the operation, such as "create2"
	// Path is as the caller gave it. Of a multi it is the path of the
	// operation that failed, empty if that is not known.
	Path string
	Code int32 // the server's code, 0 if the server did not answer
	// Unknown says that the request may or may not have been executed: it was
	// sent, and the reply was lost or not waited for.
	Unknown bool
	Err     error

	ops int // of a multi
}

// Error names operation, path and cause.
func (e *Error) Error() string {
	s := e.Op
	switch {
	case e.Path != "":
		s += " " + e.Path
	case e.ops > 0:
		s += fmt.Sprintf(" of %d", e.ops)
	}
	s += ": " + e.Err.Error()
	if e.Unknown {
		s += " (the outcome is unknown)"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsRetryable reports whether trying the same operation again may succeed
// without anything else being changed: the connection or the session was
// lost. It is false for every answer of the server about the operation
// itself, for a done context and for a closed client; also for an operation
// bound by [InSession] to a session that is over, and for one that must not be
// executed twice and may have been executed: a [Client.Multi], or a sequential
// create without [Protected], whose reply was lost.
func IsRetryable(err error) bool {
	var final *finalError
	if errors.As(err, &final) {
		return false
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, ErrConnectionLoss) || errors.Is(err, ErrSessionLost) || errors.Is(err, errTransient)
}

// IsUnknown reports whether the operation that failed with err may
// nevertheless have been executed.
func IsUnknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Unknown
}

// reason is why a connection broke, or could not be made. A context that ended
// in it is not the caller's, and a client that was closed not this one.
type reason struct{ err error }

func (r reason) Error() string { return r.err.Error() }

func (r reason) Is(target error) bool {
	switch target {
	case context.Canceled, context.DeadlineExceeded, ErrClosed:
		return false
	}
	return errors.Is(r.err, target)
}

func (r reason) As(target any) bool { return errors.As(r.err, target) }

func connectionLoss(err error) error { return fmt.Errorf("%w: %w", ErrConnectionLoss, reason{err}) }

// errTransient is wrapped by what the server may answer differently soon.
var errTransient = errors.New("framework: the server asks to try again")

var codeErrors = map[wire.Code]error{
	wire.CodeNoNode:                   ErrNoNode,
	wire.CodeNodeExists:               ErrNodeExists,
	wire.CodeBadVersion:               ErrBadVersion,
	wire.CodeNotEmpty:                 ErrNotEmpty,
	wire.CodeNoChildrenForEphemerals:  ErrNoChildrenForEphemerals,
	wire.CodeNoAuth:                   ErrNoAuth,
	wire.CodeInvalidACL:               ErrInvalidACL,
	wire.CodeAuthFailed:               ErrAuthFailed,
	wire.CodeSessionClosedRequireAuth: ErrAuthFailed,
	wire.CodeUnimplemented:            ErrUnimplemented,
	wire.CodeBadArguments:             ErrBadArguments,
	wire.CodeNotReadOnly:              ErrReadOnly,
	wire.CodeQuotaExceeded:            ErrQuotaExceeded,
	wire.CodeRuntimeInconsistency:     ErrRolledBack,
	wire.CodeConnectionLoss:           ErrConnectionLoss,
	wire.CodeSessionExpired:           ErrSessionLost,
	wire.CodeSessionMoved:             ErrConnectionLoss,
	wire.CodeOperationTimeout:         errTransient,
	wire.CodeRequestTimeout:           errTransient,
	wire.CodeThrottledOp:              errTransient,
}

// isAnswer reports whether target is what a server's code stands for.
func isAnswer(target error) bool {
	for _, err := range codeErrors {
		if err == target {
			return true
		}
	}
	return target == ErrServer
}

// codeError returns the error for a code other than [wire.CodeOK].
func codeError(code wire.Code) error {
	if err, ok := codeErrors[code]; ok {
		return err
	}
	return fmt.Errorf("%w: %v", ErrServer, code)
}
