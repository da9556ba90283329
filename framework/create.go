package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// Created is what [Client.Create] has made.
type Created struct {
	Path string // with the sequence number, relative to the client's namespace
	// Stat is the node's metadata as of its creation.
	Stat Stat
	// Session is the session in which the node was made.
	Session *Session
}

// Create makes a node. It blocks until a server has answered, ctx is done or
// the retries are used up. [ErrNodeExists], [ErrNoNode] (the parent's),
// [ErrNoAuth] and [ErrNoChildrenForEphemerals] are final.
//
// If the reply is lost the create is tried again, unless the mode is
// sequential and [Protected] is not given: then there would be two nodes. An
// answer to a later try may be due to the first one; see [Error.Unknown] and
// [Idempotent].
func (c *Client) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (Created, error) {
	cr := creation{client: c, data: data}
	for i, o := range opts {
		if o == nil {
			cr.refuseNil(i)
			continue
		}
		o.applyCreate(&cr.createOptions)
	}
	cr.operation = operation{client: c, name: wire.OpCreate2, path: path, only: cr.createOptions.only}
	if err := cr.prepare(path); err != nil {
		return Created{}, cr.operation.refuse(ctx, err)
	}
	completed := false
	defer func() { // also when a hook panics
		if !completed && cr.protected && (cr.made || cr.unknown) {
			cr.cleanUp()
		}
	}()
	if err := cr.run(ctx, cr.try); err != nil {
		return Created{}, err
	}
	completed = true
	return cr.result, nil
}

// creation is one Create under way.
type creation struct {
	operation
	createOptions
	client *Client
	data   []byte
	target string // absolute, without the mark of a protected node
	parent string // absolute
	mark   string // of a protected node
	// sentIn is the session in which the create was last sent.
	sentIn *Session
	made   bool // the node is there, and known
	done   bool // result is there, and perhaps the list of siblings is not
	result Created
}

func (cr *creation) prepare(path string) error {
	if cr.createOptions.err != nil {
		return cr.createOptions.err
	}
	target, err := cr.client.createPath(path, cr.mode)
	if err != nil {
		return err
	}
	if err := cr.mode.validate(cr.ttl, cr.hasTTL); err != nil {
		return err
	}
	if cr.orSet && cr.mode.isSequential() {
		return fmt.Errorf("%w: OrSet with mode %v", ErrInvalidOption, cr.mode)
	}
	if cr.labelled.path != "" {
		if err := ValidatePath(cr.labelled.path); err != nil {
			return err
		}
		cr.labelled.path = cr.client.absolute(cr.labelled.path)
	}
	if cr.protected && path == "/" && !cr.mode.isSequential() {
		return fmt.Errorf("%w: %q has no name to protect", ErrInvalidPath, path)
	}
	cr.target = target
	cr.parent, _ = SplitPath(cr.target)
	if cr.acl == nil {
		cr.acl = cr.client.core.aclFor(cr.target)
	}
	if err := validateACL(cr.acl); err != nil {
		return err
	}
	if cr.protected {
		cr.mark = newMark()
	}
	var request wire.Record
	cr.name, request = cr.request()
	return cr.tooLarge(len(cr.data), request)
}

// createPath returns the absolute path of a node that is to be created in mode,
// without the number that completes the name of a sequential one.
func (c *Client) createPath(path string, mode Mode) (string, error) {
	if !mode.isSequential() {
		return c.absolute(path), ValidatePath(path)
	}
	return c.prefix + path, ValidatePath(path + "0") // also "/", whose child is then all number
}

func (cr *creation) request() (wire.OpCode, wire.Record) {
	path := cr.target
	if cr.protected {
		parent, name := SplitPath(cr.target)
		path = JoinPath(parent, cr.mark+name)
	}
	return cr.mode.createRequest(path, cr.data, cr.acl, cr.ttl)
}

// maxRounds bounds how often a parent that vanishes again is made again
// within one try.
const maxRounds = 10

func (cr *creation) try(ctx context.Context, c *conn) error {
	if (cr.unknown || cr.done) && cr.mode.isEphemeral() && cr.sentIn != c.session {
		cr.forget()
	}
	switch {
	case cr.done:
		if err := cr.list(ctx, c); !errors.Is(err, ErrNoNode) {
			return err
		}
		cr.forget() // the parent was removed, and the node with it
	case cr.unknown && cr.protected:
		found, err := cr.findOwn(ctx, c)
		if found || err != nil {
			return err
		}
	}
	var err error
	for range maxRounds {
		err = cr.send(ctx, c)
		switch {
		case errors.Is(err, ErrNoNode):
			again, perr := cr.makeParents(ctx, c)
			if perr != nil {
				return perr
			}
			if !again {
				return err
			}
		case errors.Is(err, ErrNodeExists) && cr.orSet:
			if err = cr.set(ctx, c); !errors.Is(err, ErrNoNode) {
				return err
			}
		case errors.Is(err, ErrNodeExists) && cr.unknown && cr.idempotent:
			if err = cr.recognise(ctx, c, err); !errors.Is(err, ErrNoNode) {
				return err
			}
		default:
			return err
		}
	}
	return err
}

func (cr *creation) send(ctx context.Context, c *conn) error {
	op, request := cr.request()
	var reply wire.Create2Response
	calls := []*call{newCall(op, request, &reply)}
	after := cr.reads()
	calls = append(calls, after.calls()...)
	cr.sentIn = c.session
	err := cr.operation.send(ctx, c, calls...)
	if first := calls[0]; first.answered() && first.err == nil {
		cr.made = true
		cr.unknown = cr.unknown || !cr.protected // it stays, should the list fail
		cr.succeed(c, reply.Path, &reply.Stat)
	}
	var lost *lostReply
	switch {
	case cr.made:
		return after.deliver(cr, err)
	case errors.As(err, &lost) && cr.mode.isSequential() && !cr.protected:
		return &finalError{err}
	}
	return err
}

// forget gives up a node that has died or dies with its session. The next try
// gets a new mark, so that nobody takes one for the other.
func (cr *creation) forget() {
	cr.made, cr.done = false, false
	if cr.protected {
		cr.mark, cr.unknown = newMark(), false
	}
}

func (cr *creation) succeed(c *conn, path string, stat *wire.Stat) {
	cr.done = true
	cr.result = Created{Path: cr.client.relative(path), Stat: fromWireStat(stat), Session: c.session}
}

// recognise turns the error of a second try into success if the node is what
// the first has made.
func (cr *creation) recognise(ctx context.Context, c *conn, exists error) error {
	var r wire.GetDataResponse
	err := c.roundTrip(ctx, newCall(wire.OpGetData, &wire.PathWatchRequest{Path: cr.target}, &r))
	if err != nil {
		return err
	}
	if r.Stat.Version != 0 || !bytes.Equal(r.Data, cr.data) {
		return exists
	}
	if cr.mode.isEphemeral() && r.Stat.EphemeralOwner != c.session.id {
		return exists
	}
	cr.succeed(c, cr.target, &r.Stat)
	return cr.list(ctx, c)
}

// set is the second half of OrSet.
func (cr *creation) set(ctx context.Context, c *conn) error {
	var r wire.StatResponse
	request := &wire.SetDataRequest{Path: cr.target, Data: cr.data, Version: AnyVersion}
	if err := cr.operation.send(ctx, c, newCall(wire.OpSetData, request, &r)); err != nil {
		return err
	}
	cr.succeed(c, cr.target, &r.Stat)
	return cr.list(ctx, c)
}

// makeParents reports whether it is worthwhile to try the create again.
func (cr *creation) makeParents(ctx context.Context, c *conn) (again bool, err error) {
	k := cr.client.core
	upTo := cr.parent
	if !cr.parents {
		upTo = cr.client.prefix
		if upTo == k.chroot || !isBelow(upTo, cr.target) {
			return false, nil
		}
	}
	made, err := k.makeParents(ctx, c, upTo, cr.labelled)
	return made || cr.parents, err
}
