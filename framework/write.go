package framework

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/batonzk/baton/internal/wire"
)

// Set replaces a node's data if its version is the given one, or
// [AnyVersion]. It blocks until a server has answered, ctx is done or the
// retries are used up. [ErrBadVersion], [ErrNoNode] and [ErrNoAuth] are
// final; ErrBadVersion may be the doing of an own earlier try whose reply was
// lost, see [Error.Unknown] and [Idempotent].
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32, opts ...SetOption) (Stat, error) {
	var opt writeOptions
	for i, o := range opts {
		if o == nil {
			opt.refuseNil(i)
			continue
		}
		o.applySet(&opt)
	}
	o := operation{client: c, name: wire.OpSetData, path: path, only: opt.only}
	if err := cmp.Or(opt.err, ValidatePath(path)); err != nil {
		return Stat{}, o.refuse(ctx, err)
	}
	request := &wire.SetDataRequest{Path: c.absolute(path), Data: data, Version: version}
	if err := o.tooLarge(len(data), request); err != nil {
		return Stat{}, o.refuse(ctx, err)
	}
	var stat wire.Stat
	err := o.run(ctx, func(ctx context.Context, cn *conn) error {
		var r wire.StatResponse
		err := o.send(ctx, cn, newCall(wire.OpSetData, request, &r))
		if errors.Is(err, ErrBadVersion) && o.unknown && opt.idempotent && version >= 0 {
			return recogniseSet(ctx, cn, request, &stat, err)
		}
		if err == nil {
			stat = r.Stat
		}
		return err
	})
	return fromWireStat(&stat), err
}

// recogniseSet turns the error of a second try into success if the first has
// written.
func recogniseSet(ctx context.Context, c *conn, sent *wire.SetDataRequest, stat *wire.Stat, bad error) error {
	var r wire.GetDataResponse
	err := c.roundTrip(ctx, newCall(wire.OpGetData, &wire.PathWatchRequest{Path: sent.Path}, &r))
	if err != nil {
		return err
	}
	if r.Stat.Version != sent.Version+1 || !bytes.Equal(r.Data, sent.Data) {
		return bad
	}
	*stat = r.Stat
	return nil
}

// SetACL replaces a node's ACL if the ACL's version is the given one, or
// [AnyVersion]. It blocks as Set does.
func (c *Client) SetACL(ctx context.Context, path string, acl []ACL, version int32) (Stat, error) {
	o := operation{client: c, name: wire.OpSetACL, path: path}
	if err := ValidatePath(path); err != nil {
		return Stat{}, o.refuse(ctx, err)
	}
	request := &wire.SetACLRequest{Path: c.absolute(path), ACL: wireACLs(acl), Version: version}
	var stat wire.Stat
	err := o.run(ctx, func(ctx context.Context, cn *conn) error {
		var r wire.StatResponse
		err := o.send(ctx, cn, newCall(wire.OpSetACL, request, &r))
		if err == nil {
			stat = r.Stat
		}
		return err
	})
	return fromWireStat(&stat), err
}

// Delete removes a node if its version is the given one, or [AnyVersion]. It
// blocks until a server has answered, ctx is done or the retries are used up.
// [ErrNoNode], [ErrBadVersion], [ErrNotEmpty] and [ErrNoAuth] are final;
// ErrNoNode may be the doing of an own earlier try whose reply was lost, see
// [Error.Unknown] and [Idempotent].
func (c *Client) Delete(ctx context.Context, path string, version int32, opts ...DeleteOption) error {
	var opt deleteOptions
	for i, o := range opts {
		if o == nil {
			opt.refuseNil(i)
			continue
		}
		o.applyDelete(&opt)
	}
	o := operation{client: c, name: wire.OpDelete, path: path, only: opt.only}
	if err := cmp.Or(opt.err, ValidatePath(path)); err != nil {
		return o.refuse(ctx, err)
	}
	request := &wire.PathVersionRequest{Path: c.absolute(path), Version: version}
	try := func(ctx context.Context, cn *conn) error {
		err := o.send(ctx, cn, newCall(wire.OpDelete, request, &wire.Empty{}))
		if opt.children && errors.Is(err, ErrNotEmpty) {
			return o.deleteTree(ctx, cn, request)
		}
		if errors.Is(err, ErrNoNode) && o.unknown && (opt.idempotent || opt.guaranteed) {
			return nil
		}
		return err
	}
	err := o.run(ctx, try)
	if err != nil && opt.guaranteed && (mayPass(err) || ctx.Err() != nil) {
		c.core.background("delete "+path, opt.only, func(ctx context.Context, cn *conn) error {
			err := try(ctx, cn)
			if errors.Is(err, ErrNoNode) {
				return nil
			}
			return err
		})
	}
	return err
}

// deleteTree deletes what lies below a node, and then the node, while others
// may add and remove nodes there.
func (o *operation) deleteTree(ctx context.Context, c *conn, node *wire.PathVersionRequest) error {
	for {
		var list wire.GetChildren2Response
		err := c.roundTrip(ctx, newCall(wire.OpGetChildren2, &wire.PathWatchRequest{Path: node.Path}, &list))
		if err != nil {
			return err
		}
		for _, name := range list.Children {
			child := &wire.PathVersionRequest{Path: JoinPath(node.Path, name), Version: AnyVersion}
			err := o.send(ctx, c, newCall(wire.OpDelete, child, &wire.Empty{}))
			if errors.Is(err, ErrNotEmpty) {
				err = o.deleteTree(ctx, c, child)
			}
			if err != nil && !errors.Is(err, ErrNoNode) {
				return err
			}
		}
		err = o.send(ctx, c, newCall(wire.OpDelete, node, &wire.Empty{}))
		if !errors.Is(err, ErrNotEmpty) {
			return err
		}
	}
}
