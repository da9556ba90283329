package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batonzk/baton/internal/wire"
)

// An Op is one operation of a [Client.Multi]. It is a value that may be part
// of several multis, of several clients. Its path is relative to the namespace
// of the client that executes the multi, unless [Op.For] binds it to another.
type Op struct {
	make func(c *Client) (wire.Op, error)
	path string
	size int // of the data
	view *Client
	also error
	err  error
}

// Err returns the error that [FailOp] was given, nil for other operations.
func (o Op) Err() error { return o.err }

// For returns o with its path relative to the namespace of c, whichever view
// executes it. A multi of a client with another [Client.Root] than c refuses
// it with [ErrInvalidOption].
func (o Op) For(c *Client) Op {
	if c == nil {
		o.make = func(*Client) (wire.Op, error) { return wire.Op{}, fmt.Errorf("%w: For(nil)", ErrInvalidOption) }
	}
	o.view = c
	return o
}

// Or returns o with a meaning for its failure: if it is o that makes a multi
// fail, the multi's error wraps err too, and is final. Of several calls the
// last one's error comes first. A nil err changes nothing.
func (o Op) Or(err error) Op {
	switch {
	case err == nil:
	case o.also == nil:
		o.also = err
	default:
		o.also = fmt.Errorf("%w: %w", err, o.also)
	}
	return o
}

// failed gives the error of an operation that failed the meaning that it has
// for its maker.
func (o Op) failed(err error) error {
	if o.also == nil {
		return err
	}
	return &finalError{fmt.Errorf("%w: %w", o.also, err)}
}

// CreateOp creates a node. Without an ACL it gets the one of the client's
// [ACLProvider]. Parents are not made.
func CreateOp(path string, data []byte, mode Mode, acl ...ACL) Op {
	acl = slices.Clone(acl)
	return Op{path: path, size: len(data), make: func(c *Client) (wire.Op, error) {
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
		own := acl
		if len(own) == 0 {
			own = c.core.aclFor(full)
		}
		code, request := mode.createRequest(full, data, own, 0)
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
// for good, and sends nothing.
func FailOp(err error) Op { return Op{err: err} }

func pathOp(path string, make func(full string) wire.Op) Op {
	return Op{path: path, make: func(c *Client) (wire.Op, error) {
		if err := ValidatePath(path); err != nil {
			return wire.Op{}, err
		}
		return make(c.absolute(path)), nil
	}}
}

// wire returns o as c sends it.
func (o Op) wire(c *Client) (wire.Op, error) {
	switch {
	case o.err != nil:
		return wire.Op{}, &finalError{o.failed(o.err)}
	case o.make == nil:
		return wire.Op{}, fmt.Errorf("%w: the zero Op", ErrInvalidOption)
	case o.view == nil:
		return o.make(c)
	case o.view.core != c.core:
		return wire.Op{}, fmt.Errorf("%w: it is for another client", ErrInvalidOption)
	}
	return o.make(o.view)
}

// Result is the outcome of one operation of a Multi.
type Result struct {
	// Path is that of a created node, with its sequence number, relative to
	// the same namespace as the operation's path.
	Path string
	Stat Stat // of a changed node; a server does not tell it of a created one
	// Err is the reason why the operation, and with it all others, failed;
	// [ErrRolledBack] for those that did not fail themselves.
	Err error
}

// Multi executes all of ops, or none of them, in one transaction. It blocks
// until a server has answered, ctx is done or the retries are used up. If an
// operation fails, the error has its path and wraps its reason, its text has
// its index, and the results say which others were not to blame. An error
// that is not about one of them has no path.
//
// A Multi whose reply was lost is not tried again, since that could execute
// it twice: [Error.Unknown] is then set. Without ops it succeeds, with no
// results, if a server answers.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	m := multi{operation{client: c, name: wire.OpMulti, ops: len(ops)}, ops}
	request, size := new(wire.MultiRequest), 0
	for i, op := range ops {
		w, err := op.wire(c)
		if err != nil {
			return nil, m.refuse(ctx, m.blame(i, err))
		}
		request.Ops = append(request.Ops, w)
		size += op.size
	}
	if err := m.tooLarge(size, request); err != nil {
		return nil, m.refuse(ctx, err)
	}
	var results []Result
	err := m.run(ctx, func(ctx context.Context, cn *conn) error {
		var r wire.MultiResponse
		err := m.send(ctx, cn, newCall(wire.OpMulti, request, &r))
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
		results, err = m.results(request.Ops, r.Results)
		return err
	})
	return results, err
}

// multi is one Multi under way.
type multi struct {
	operation
	parts []Op
}

// blame returns the error of a multi that fails because of operation i.
func (m *multi) blame(i int, err error) error {
	m.path = m.parts[i].path
	return fmt.Errorf("operation %d: %w", i, err)
}

func (m *multi) results(sent []wire.Op, replies []wire.OpResult) ([]Result, error) {
	results := make([]Result, len(replies))
	var failed error
	for i, r := range replies {
		view := m.client
		if m.parts[i].view != nil {
			view = m.parts[i].view
		}
		switch reply := r.Reply.(type) {
		case *wire.CreateResponse:
			results[i].Path = view.relative(reply.Path)
		case *wire.Create2Response:
			results[i] = Result{Path: view.relative(reply.Path), Stat: fromWireStat(&reply.Stat)}
		case *wire.StatResponse:
			results[i].Stat = fromWireStat(&reply.Stat)
		case *wire.ErrorResponse:
			// An operation before the one that failed has the code 0.
			results[i].Err = ErrRolledBack
			if code := reply.Err; code != wire.CodeOK && code != wire.CodeRuntimeInconsistency {
				err := m.parts[i].failed(&answer{code: code, err: codeError(code)})
				results[i].Err = err
				failed = m.blame(i, fmt.Errorf("%v: %w", sent[i].Code, err))
			}
		}
	}
	return results, failed
}
