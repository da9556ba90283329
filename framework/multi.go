package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

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
// it twice: [Error.Unknown] is then set. One that creates a node with
// [Op.Protected] is, and one that only checks. Without ops it succeeds, with
// no results, if a server answers.
func (c *Client) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	m := multi{operation: operation{client: c, name: wire.OpMulti, ops: len(ops)}, parts: ops}
	if err := m.prepare(); err != nil {
		return nil, m.refuse(ctx, err)
	}
	completed := false
	defer func() { // also when a hook panics
		if !completed && len(m.marked) > 0 && (m.made || m.unknown) {
			m.cleanUp()
		}
	}()
	err := m.run(ctx, m.try)
	completed = err == nil
	return m.outcome, err
}

// multi is one Multi under way.
type multi struct {
	operation
	parts   []Op
	request wire.MultiRequest
	marked  []markedPart
	changes bool     // it does more than to check
	sentIn  *Session // the session in which it was last sent
	made    bool     // it was executed
	failed  int      // index of the part that made it fail
	outcome []Result
}

func (m *multi) prepare() error {
	size := 0
	for i, part := range m.parts {
		w, err := part.wire(m.client)
		if err == nil && part.protected {
			err = m.protect(i, w)
		}
		if _, create := w.Request.(*wire.CreateRequest); err == nil && part.parents && !create {
			err = fmt.Errorf("%w: the parents of a %v", ErrInvalidOption, w.Code)
		}
		if err == nil && part.session != nil {
			err = m.bind(*part.session)
		}
		if err != nil {
			return m.blame(i, err)
		}
		m.changes = m.changes || w.Code != wire.OpCheck
		m.request.Ops = append(m.request.Ops, w)
		size += part.size
	}
	return m.tooLarge(size, &m.request)
}

// bind lets the multi run in s only.
func (m *multi) bind(s *Session) error {
	switch {
	case s == nil:
		return errNoSession
	case m.only != nil && m.only != s:
		return fmt.Errorf("%w: it is for another session than those before it", ErrInvalidOption)
	}
	m.only = s
	return nil
}

func (m *multi) try(ctx context.Context, c *conn) error {
	if m.unknown {
		if found, err := m.findOwn(ctx, c); found || err != nil {
			return err
		}
		m.unknown = false
	}
	var err error
	for range maxRounds {
		err = m.execute(ctx, c)
		if !errors.Is(err, ErrNoNode) || !m.parts[m.failed].parents {
			return err
		}
		parent, _ := SplitPath(m.request.Ops[m.failed].Request.(*wire.CreateRequest).Path)
		if _, err := m.client.core.makeParents(ctx, c, parent, label{}); err != nil {
			return err
		}
	}
	return err
}

func (m *multi) execute(ctx context.Context, c *conn) error {
	m.sentIn = c.session
	var r wire.MultiResponse
	err := m.send(ctx, c, newCall(wire.OpMulti, &m.request, &r))
	m.unknown = m.unknown && m.changes
	if m.unknown && len(m.marked) == 0 {
		return &finalError{err}
	}
	if err != nil {
		return err
	}
	if len(r.Results) != len(m.parts) {
		return fmt.Errorf("%w: %d results for %d operations", ErrServer, len(r.Results), len(m.parts))
	}
	m.outcome, err = m.results(m.request.Ops, r.Results)
	m.made = err == nil
	return err
}

// blame returns the error of a multi that fails because of operation i.
func (m *multi) blame(i int, err error) error {
	m.path = m.parts[i].path
	return fmt.Errorf("operation %d: %w", i, err)
}

// viewOf returns the client whose namespace the paths of part i are in.
func (m *multi) viewOf(i int) *Client {
	if view := m.parts[i].view; view != nil {
		return view
	}
	return m.client
}

func (m *multi) results(sent []wire.Op, replies []wire.OpResult) ([]Result, error) {
	results := make([]Result, len(replies))
	var failed error
	for i, r := range replies {
		view := m.viewOf(i)
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
				m.failed = i
				failed = m.blame(i, fmt.Errorf("%v: %w", sent[i].Code, err))
			}
		}
	}
	return results, failed
}
