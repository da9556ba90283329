package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/batonzk/baton/internal/wire"
)

// An Op is one operation of a [Client.Multi]. It is a value that may be part
// of several multis, of several clients. Its path is relative to the namespace
// of the client that executes the multi, unless [Op.For] binds it to another.
type Op struct {
	make      func(c *Client) (wire.Op, error)
	path      string
	size      int // of the data
	view      *Client
	session   **Session // that it is bound to, if not nil
	protected bool
	parents   bool
	also      error
	err       error
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

// In returns o bound to session s: a multi with it runs in that session only.
// Once s is over the multi fails with [ErrSessionLost], even where it would have
// been tried again. So it does if s is nil, as [Client.Session] is without a
// session.
func (o Op) In(s *Session) Op {
	o.session = &s
	return o
}

// Protected returns o, a create, with a unique mark before the node's name, in
// the form of [Protected]. By it a multi whose reply was lost is recognised:
// since all or none of it is executed, one node tells. So such a multi is tried
// again, in its session, without being executed twice; and when it fails in the
// end, ctx included, the protected nodes that it may have made are deleted in
// the background, for as long as it takes. What else it may have done stays.
//
// A multi that was recognised tells the paths of its protected nodes and nothing
// else, and no path of one that somebody has deleted since.
func (o Op) Protected() Op {
	o.protected = true
	return o
}

// WithParents returns o, a create, with what is missing of the node's parents
// to be created first, as by [WithParents]. That is no part of the transaction.
func (o Op) WithParents() Op {
	o.parents = true
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
// [ACLProvider]; if that gives none, the multi fails with [ErrInvalidACL] and is
// not sent. Parents are made only by [Op.WithParents].
func CreateOp(path string, data []byte, mode Mode, acl ...ACL) Op {
	acl = slices.Clone(acl)
	return Op{path: path, size: len(data), make: func(c *Client) (wire.Op, error) {
		full, err := c.createPath(path, mode)
		if err = errors.Join(err, mode.validate(0, false)); err != nil {
			return wire.Op{}, err
		}
		own := acl
		if len(own) == 0 {
			own = c.core.aclFor(full)
		}
		if err := validateACL(own); err != nil {
			return wire.Op{}, err
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
