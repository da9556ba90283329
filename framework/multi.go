package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// An Op is one operation of a [Client.Multi].
type Op struct {
	make func(c *Client) (wire.Op, error)
	size int // of the data
	err  error
}

// Err returns the error that [FailOp] was given, nil for other operations.
func (o Op) Err() error { return o.err }

// CreateOp creates a node. Without an ACL it gets the one of the client's
// [ACLProvider]. Parents are not made.
func CreateOp(path string, data []byte, mode Mode, acl ...ACL) Op {
	return Op{size: len(data), make: func(c *Client) (wire.Op, error) {
		valid := path
		if mode.isSequential() {
			valid += "0"
		}
		if err := errors.Join(ValidatePath(valid), mode.validate(0, false)); err != nil {
			return wire.Op{}, err
		}
		full := c.absolute(path)
		if mode.isSequential() {
			full = c.prefix + path // also "/", whose child is then all number
		}
		if len(acl) == 0 {
			acl = c.core.aclFor(full)
		}
		code, request := mode.createRequest(full, data, acl, 0)
		return wire.Op{Code: code, Request: request}, nil
	}}
}

// SetOp replaces a node's data if its version is the given one, or [AnyVersion].
func SetOp(path string, data []byte, version int32) Op {
	o := pathOp(path, func(full string) wire.Op {
		return wire.Op{Code: wire.OpSetData, Request: &wire.SetDataRequest{Path: full, Data: data, Version: version}}
	})
	o.size = len(data)
	return o
}

// DeleteOp removes a node if its version is the given one, or [AnyVersion].
func DeleteOp(path string, version int32) Op {
	return pathOp(path, func(full string) wire.Op {
		return wire.Op{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: full, Version: version}}
	})
}

// CheckOp demands that a node exists and has the given version, or [AnyVersion].
func CheckOp(path string, version int32) Op {
	return pathOp(path, func(full string) wire.Op {
		return wire.Op{Code: wire.OpCheck, Request: &wire.PathVersionRequest{Path: full, Version: version}}
	})
}

// FailOp is an operation that cannot be done: a Multi with it fails with err
// and sends nothing.
func FailOp(err error) Op { return Op{err: err} }

func pathOp(path string, make func(full string) wire.Op) Op {
	return Op{make: func(c *Client) (wire.Op, error) {
		if err := ValidatePath(path); err != nil {
			return wire.Op{}, err
		}
		return make(c.absolute(path)), nil
	}}
}

// Result is the outcome of one operation of a Multi.
type Result struct {
	Path string // of a created node, with its sequence number
	Stat Stat   // of a changed node; a server does not tell it of a created one
	// Err is the reason why the operation, and with it all others, failed;
	// [ErrRolledBack] for those that did not fail themselves.
	Err error
}

// Multi executes all of ops, or none of them, in one transaction. It blocks
// until a server has answered, ctx is done or the retries are used up. If an
// operation fails, the error names it and wraps its reason, and the results
// say which others were not to blame.
//
// A Multi whose reply was lost is not tried again, since that could execute
// it twice: [Error.Unknown] is then set.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	o := operation{client: c, name: wire.OpMulti, path: fmt.Sprintf("of %d", len(ops))}
	request, size := new(wire.MultiRequest), 0
	for i, op := range ops {
		if op.err != nil {
			return nil, o.refuse(fmt.Errorf("operation %d: %w", i, op.err))
		}
		if op.make == nil {
			return nil, o.refuse(fmt.Errorf("%w: operation %d is the zero Op", ErrInvalidOption, i))
		}
		w, err := op.make(c)
		if err != nil {
			return nil, o.refuse(fmt.Errorf("operation %d: %w", i, err))
		}
		request.Ops = append(request.Ops, w)
		size += op.size
	}
	if err := o.tooLarge(size, request); err != nil {
		return nil, o.refuse(err)
	}
	var results []Result
	err := o.run(ctx, func(ctx context.Context, cn *conn) error {
		var r wire.MultiResponse
		err := o.send(ctx, cn, newCall(wire.OpMulti, request, &r))
		var lost *lostReply
		if errors.As(err, &lost) {
			return &finalError{err}
		}
		if err != nil {
			return err
		}
		if len(r.Results) != len(ops) {
			return fmt.Errorf("%w: %d results for %d operations", ErrServer, len(r.Results), len(ops))
		}
		results, err = c.multiResults(r.Results)
		return err
	})
	return results, err
}

func (c *Client) multiResults(replies []wire.OpResult) ([]Result, error) {
	results := make([]Result, len(replies))
	var failed error
	for i, r := range replies {
		switch reply := r.Reply.(type) {
		case *wire.CreateResponse:
			results[i].Path = c.relative(reply.Path)
		case *wire.Create2Response:
			results[i] = Result{Path: c.relative(reply.Path), Stat: fromWireStat(&reply.Stat)}
		case *wire.StatResponse:
			results[i].Stat = fromWireStat(&reply.Stat)
		case *wire.ErrorResponse:
			// An operation before the one that failed has the code 0.
			results[i].Err = ErrRolledBack
			if code := reply.Err; code != wire.CodeOK && code != wire.CodeRuntimeInconsistency {
				results[i].Err = codeError(code)
				failed = fmt.Errorf("operation %d: %w", i, &answer{code: code, err: results[i].Err})
			}
		}
	}
	return results, failed
}
