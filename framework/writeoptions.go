package framework

import (
	"fmt"
	"time"
)

// A CreateOption changes one [Client.Create].
type CreateOption interface{ applyCreate(*createOptions) }

// A SetOption changes one [Client.Set].
type SetOption interface{ applySet(*writeOptions) }

// A DeleteOption changes one [Client.Delete].
type DeleteOption interface{ applyDelete(*deleteOptions) }

// A WriteOption is at home in all three.
type WriteOption interface {
	CreateOption
	SetOption
	DeleteOption
}

type writeOptions struct {
	only       *Session
	idempotent bool
	err        error // why the write is refused
}

func (o *writeOptions) refuse(err error) {
	if o.err == nil {
		o.err = err
	}
}

// refuseNil is what becomes of option i, which is nil.
func (o *writeOptions) refuseNil(i int) {
	o.refuse(fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i))
}

type createOptions struct {
	writeOptions
	mode      Mode
	ttl       time.Duration
	hasTTL    bool
	acl       []ACL
	parents   bool
	protected bool
	orSet     bool
	siblings  *[]string
	ancestors *[]Ancestor
	labelled  label
}

type deleteOptions struct {
	writeOptions
	guaranteed bool
	children   bool
}

type writeOption func(*writeOptions)

func (f writeOption) applyCreate(o *createOptions) { f(&o.writeOptions) }
func (f writeOption) applySet(o *writeOptions)     { f(o) }
func (f writeOption) applyDelete(o *deleteOptions) { f(&o.writeOptions) }

type createOption func(*createOptions)

func (f createOption) applyCreate(o *createOptions) { f(o) }

type deleteOption func(*deleteOptions)

func (f deleteOption) applyDelete(o *deleteOptions) { f(o) }

// Idempotent lets a retry recognise the work of its own first try, whose
// reply was lost. A create is then content with a node of version 0 that
// holds its data; a set with the next version, holding its data; a delete
// with no node. Somebody else may have done the same thing: that is taken for
// success too.
func Idempotent() WriteOption {
	return writeOption(func(o *writeOptions) { o.idempotent = true })
}

// errNoSession refuses what is bound to the session of a client without one.
var errNoSession = &finalError{fmt.Errorf("%w: there is none, the write is bound to a nil session", ErrSessionLost)}

// InSession lets the write run in session s only. Once s is over it fails
// with [ErrSessionLost], even where it would have been tried again. So it does
// if s is nil, as [Client.Session] is without a session.
func InSession(s *Session) WriteOption {
	return writeOption(func(o *writeOptions) {
		o.only = s
		if s == nil {
			o.refuse(errNoSession)
		}
	})
}

// WithMode sets the mode, [Persistent] unless set.
func WithMode(m Mode) CreateOption {
	return createOption(func(o *createOptions) { o.mode = m })
}

// TTL makes a persistent node that the server removes once it has no children
// and was not changed for d, of which it counts whole milliseconds. Servers support it only if
// their extended types are enabled, see [ErrUnimplemented].
func TTL(d time.Duration) CreateOption {
	return createOption(func(o *createOptions) { o.ttl, o.hasTTL = d, true })
}

// WithACL sets the node's ACL in place of the client's [ACLProvider].
func WithACL(acl ...ACL) CreateOption {
	acl = append([]ACL{}, acl...) // not nil: none is not the provider's
	return createOption(func(o *createOptions) { o.acl = acl })
}

// WithParents creates what is missing of the parents: containers, or
// persistent nodes where the server has none, see [WithoutContainers].
func WithParents() CreateOption {
	return createOption(func(o *createOptions) { o.parents = true })
}

// WithLabelledParent is [WithParents], and the parent at path holds data if it
// is made by this create. One that is there already keeps what it holds.
func WithLabelledParent(path string, data []byte) CreateOption {
	data = append([]byte{}, data...)
	return createOption(func(o *createOptions) {
		o.parents, o.labelled = true, label{path: path, data: data}
		if path == "" {
			o.refuse(ValidatePath(path))
		}
	})
}

// Protected puts a unique mark before the node's name, in Apache Curator's
// form: _c_, a UUID, a hyphen. By it the node is found again when the reply
// was lost. So however often the create is tried, at most one node is made;
// one of an older session is never taken for the new one; and when the create
// fails in the end, ctx included, a node that it may have made is deleted in
// the background, for as long as it takes.
func Protected() CreateOption {
	return createOption(func(o *createOptions) { o.protected = true })
}

// OrSet writes the data to the node if it exists already. It goes with modes
// that are not sequential.
func OrSet() CreateOption {
	return createOption(func(o *createOptions) { o.orSet = true })
}

// Siblings also lists the children of the node's parent, the new node among
// them, as of right after the creation. It takes no further round trip, but
// after a lost reply or with a node that was there already. If the list fails
// for good so does the create, and the node stays, unless it is [Protected].
func Siblings(names *[]string) CreateOption {
	return createOption(func(o *createOptions) {
		o.siblings = names
		if names == nil {
			o.refuse(fmt.Errorf("%w: Siblings(nil)", ErrInvalidOption))
		}
	})
}

// WithAncestors also reads the new node's parent and all nodes above it, as
// [Client.Ancestors] does, as of right after the creation. It takes no further
// round trip, but after a lost reply or with a node that was there already.
func WithAncestors(nodes *[]Ancestor) CreateOption {
	return createOption(func(o *createOptions) {
		o.ancestors = nodes
		if nodes == nil {
			o.refuse(fmt.Errorf("%w: WithAncestors(nil)", ErrInvalidOption))
		}
	})
}

// Guaranteed makes the delete go on in the background after it has returned
// an error that can be tried again, or because ctx is done: until the node is
// gone, the server refuses, or the client or the session given by [InSession]
// ends. It is meant for nodes whose name is never used again.
func Guaranteed() DeleteOption {
	return deleteOption(func(o *deleteOptions) { o.guaranteed = true })
}

// WithChildren deletes all that lies below the node first. It is not atomic.
func WithChildren() DeleteOption {
	return deleteOption(func(o *deleteOptions) { o.children = true })
}
