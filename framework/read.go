package framework

import (
	"context"

	"github.com/batonzk/baton/internal/wire"
)

// The reads answer from the server the client is connected to, which may lag
// behind others, though never behind what this client has seen in its present
// session. Where that matters, call [Client.Sync] first.

// Get returns a node's data and metadata. It blocks until a server has
// answered, ctx is done or the retries are used up; [ErrNoNode] and
// [ErrNoAuth] are final.
func (c *Client) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	r, err := read[wire.GetDataResponse](ctx, c, wire.OpGetData, path, &wire.PathWatchRequest{Path: c.absolute(path)})
	return r.Data, fromWireStat(&r.Stat), err
}

// Exists returns a node's metadata, or [ErrNoNode]. It blocks as Get does.
func (c *Client) Exists(ctx context.Context, path string) (Stat, error) {
	r, err := read[wire.StatResponse](ctx, c, wire.OpExists, path, &wire.PathWatchRequest{Path: c.absolute(path)})
	return fromWireStat(&r.Stat), err
}

// Children returns the names of a node's children, in no order, and the
// node's metadata. It blocks as Get does.
func (c *Client) Children(ctx context.Context, path string) ([]string, Stat, error) {
	r, err := read[wire.GetChildren2Response](ctx, c, wire.OpGetChildren2, path, &wire.PathWatchRequest{Path: c.absolute(path)})
	return r.Children, fromWireStat(&r.Stat), err
}

// GetACL returns a node's ACL and metadata. It blocks as Get does.
func (c *Client) GetACL(ctx context.Context, path string) ([]ACL, Stat, error) {
	r, err := read[wire.GetACLResponse](ctx, c, wire.OpGetACL, path, &wire.PathRequest{Path: c.absolute(path)})
	return fromWireACLs(r.ACL), fromWireStat(&r.Stat), err
}

// Sync returns once the server that the client is connected to has caught up
// with all that had been committed before the call. It blocks as Get does.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := read[wire.PathRequest](ctx, c, wire.OpSync, path, &wire.PathRequest{Path: c.absolute(path)})
	return err
}

// GetW is Get that also sets a [Watch] on the node's data and existence. If
// there is an error there is no watch, on the server neither.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, Stat, *Watch, error) {
	r, w, err := watch(ctx, c, path, dataRead)
	return r.Data, fromWireStat(&r.Stat), w, err
}

// ExistsW is Exists that also sets a [Watch] on the node's data and
// existence. That there is no node is no error: the metadata is then zero, see
// [Stat.IsZero], and the watch waits for the node's creation. If there is an
// error there is no watch, on the server neither.
func (c *Client) ExistsW(ctx context.Context, path string) (Stat, *Watch, error) {
	r, w, err := watch(ctx, c, path, existsRead)
	if r == (wire.StatResponse{}) {
		return Stat{}, w, err
	}
	return fromWireStat(&r.Stat), w, err
}

// ChildrenW is Children that also sets a [Watch] on the set of children. If
// there is an error there is no watch, on the server neither.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, Stat, *Watch, error) {
	r, w, err := watch(ctx, c, path, childrenRead)
	return r.Children, fromWireStat(&r.Stat), w, err
}

// reply is a pointer to a record that a reply is read into. Each try has one
// of its own, since an answer that nobody waits for may still be on its way.
type reply[T any] interface {
	*T
	wire.Record
}

func read[T any, P reply[T]](ctx context.Context, c *Client, op wire.OpCode, path string, request wire.Record) (T, error) {
	var result T
	o := operation{client: c, name: op, path: path}
	if err := ValidatePath(path); err != nil {
		return result, o.refuse(ctx, err)
	}
	err := o.run(ctx, func(ctx context.Context, cn *conn) error {
		into := P(new(T))
		err := cn.roundTrip(ctx, newCall(op, request, into))
		if err == nil {
			result = *into
		}
		return err
	})
	return result, err
}

func watch[T any, P reply[T]](ctx context.Context, c *Client, path string, make func(string, P) watchRead) (T, *Watch, error) {
	var (
		result T
		w      *Watch
	)
	full := c.absolute(path)
	o := operation{client: c, name: make(full, P(new(T))).call.op, path: path}
	if err := ValidatePath(path); err != nil {
		return result, nil, o.refuse(ctx, err)
	}
	err := o.run(ctx, func(ctx context.Context, cn *conn) (err error) {
		into := P(new(T))
		w, err = cn.session.hub.read(ctx, cn, c, make(full, into))
		if err == nil {
			result = *into
		}
		return err
	})
	return result, w, err
}
