package embedded

import (
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// As in ZooKeeper, a change is made in two steps. First a view of the tree
// checks a request against the rules and turns it into a txn, a change that
// cannot fail. Then the txn is applied. A multi checks all its requests, each
// against a view that includes the ones before, and applies all or none.

// A txn is one change of one node, found to be permitted.
type txn struct {
	op      wire.OpCode // create, delete, setData, setACL or check
	reply   wire.OpCode // what the client asked for
	path    string
	data    []byte
	acl     []wire.ACL
	version int32 // the node's new version; for create the parent's new cversion
	kind    kind
	owner   int64
}

// A caller is on whose behalf a request is checked.
type caller struct {
	session           int64
	ids               []identity
	withoutContainers bool
	enforceQuota      bool
	limits            treeLimits
}

// A view is the tree with the changes of the earlier requests of a multi laid
// over it.
type view struct {
	tree    *tree
	changed map[string]*record // nil values are deleted nodes; nil outside a multi
	zxid    int64
	now     int64 // ms since 1970

	nodes, bytes int // that earlier requests add
}

// get returns the record of the node at path, a copy that the caller may
// change, and whether there is one.
func (v *view) get(path string) (record, bool) {
	if r, ok := v.changed[path]; ok {
		if r == nil {
			return record{}, false
		}
		return *r, true
	}
	n := v.tree.get(path)
	if n == nil {
		return record{}, false
	}
	return n.record, true
}

// put lays a change over the tree, if another request will look at it.
func (v *view) put(path string, r *record) {
	if v.changed != nil {
		v.changed[path] = r
	}
}

// grow reports whether the tree may become so much larger than the earlier
// requests make it, and notes it. It may always become smaller.
func (v *view) grow(c *caller, nodes, bytes int) bool {
	v.nodes += nodes
	v.bytes += bytes
	return (nodes <= 0 || v.tree.count()+v.nodes <= c.limits.nodes) &&
		(bytes <= 0 || v.tree.size+v.tree.aclSize+v.bytes <= c.limits.bytes)
}

// check turns one request into a txn, or says why it is refused.
func (v *view) check(c *caller, op wire.OpCode, request wire.Record) (txn, wire.Code) {
	switch r := request.(type) {
	case *wire.CreateRequest:
		return v.create(c, op, r, -1)
	case *wire.CreateTTLRequest:
		return v.create(c, op, &r.CreateRequest, r.TTL)
	case *wire.PathVersionRequest:
		if op == wire.OpDelete {
			return v.delete(c, r)
		}
		return v.checkVersion(c, r)
	case *wire.SetDataRequest:
		return v.setData(c, r)
	case *wire.SetACLRequest:
		return v.setACL(c, r)
	}
	return txn{}, wire.CodeMarshallingError
}

// nextVersion returns the version after current if wanted allows the change.
func nextVersion(current, wanted int32) (int32, wire.Code) {
	if wanted != -1 && wanted != current {
		return 0, wire.CodeBadVersion
	}
	return current + 1, wire.CodeOK
}

func (v *view) create(c *caller, op wire.OpCode, r *wire.CreateRequest, ttl int64) (txn, wire.Code) {
	t := txn{op: wire.OpCreate, reply: op, path: r.Path, data: r.Data}
	var sequential bool
	var code wire.Code
	if t.kind, t.owner, sequential, code = c.createMode(op, r.Flags, ttl); code != wire.CodeOK {
		return t, code
	}
	parentPath, _, ok := split(r.Path)
	if !ok {
		return t, wire.CodeBadArguments
	}
	if t.acl, ok = fixACL(r.ACL, c.ids); !ok {
		return t, wire.CodeInvalidACL
	}
	parent, ok := v.get(parentPath)
	if !ok {
		return t, wire.CodeNoNode
	}
	if !allowed(parent.acl, wire.PermCreate, c.ids) {
		return t, wire.CodeNoAuth
	}
	if sequential {
		t.path += fmt.Sprintf("%010d", parent.cversion)
	}
	if !validPath(t.path) {
		return t, wire.CodeBadArguments
	}
	if _, exists := v.get(t.path); exists {
		return t, wire.CodeNodeExists
	}
	if parent.kind == ephemeral {
		return t, wire.CodeNoChildrenForEphemerals
	}
	if c.enforceQuota && v.tree.exceeds(t.path, 1, len(t.data)) || !v.grow(c, 1, len(t.path)+len(t.data)+aclSize(t.acl)) {
		return t, wire.CodeQuotaExceeded
	}
	t.version = parent.cversion + 1
	parent.cversion, parent.pzxid = t.version, v.zxid
	parent.childCount++
	v.put(parentPath, &parent)
	v.put(t.path, v.created(&t))
	return t, wire.CodeOK
}

// created returns the record of the node that t makes.
func (v *view) created(t *txn) *record {
	return &record{
		czxid: v.zxid, mzxid: v.zxid, pzxid: v.zxid, ctime: v.now, mtime: v.now,
		kind: t.kind, owner: t.owner, acl: t.acl,
	}
}

// maxTTL is the longest TTL in milliseconds, about 34 years.
const maxTTL = 1<<40 - 1

// createMode says what kind of node a create makes. For the members of the
// create family other than create and create2 the operation decides, whatever
// the flags say.
func (c *caller) createMode(op wire.OpCode, flags int32, ttl int64) (k kind, owner int64, sequential bool, code wire.Code) {
	if flags < wire.ModePersistent || flags > wire.ModePersistentSequentialTTL {
		return 0, 0, false, wire.CodeBadArguments
	}
	wantsTTL := flags >= wire.ModePersistentTTL
	if c.withoutContainers && (wantsTTL || op == wire.OpCreateContainer) {
		return 0, 0, false, wire.CodeUnimplemented
	}
	if wantsTTL && (ttl <= 0 || ttl > maxTTL) || !wantsTTL && op == wire.OpCreateTTL {
		return 0, 0, false, wire.CodeBadArguments
	}
	sequential = flags == wire.ModePersistentSequential || flags == wire.ModeEphemeralSequential ||
		flags == wire.ModePersistentSequentialTTL
	switch {
	case op == wire.OpCreateContainer:
		return container, 0, sequential, wire.CodeOK
	case op == wire.OpCreateTTL:
		return timed, ttl, sequential, wire.CodeOK
	case flags == wire.ModeEphemeral, flags == wire.ModeEphemeralSequential:
		return ephemeral, c.session, sequential, wire.CodeOK
	}
	return persistent, 0, sequential, wire.CodeOK
}

func (v *view) delete(c *caller, r *wire.PathVersionRequest) (txn, wire.Code) {
	t := txn{op: wire.OpDelete, reply: wire.OpDelete, path: r.Path}
	parentPath, code := splitForDelete(r.Path)
	if code != wire.CodeOK {
		return t, code
	}
	parent, ok := v.get(parentPath)
	if !ok {
		return t, wire.CodeNoNode
	}
	if !allowed(parent.acl, wire.PermDelete, c.ids) {
		return t, wire.CodeNoAuth
	}
	n, ok := v.get(r.Path)
	if !ok {
		return t, wire.CodeNoNode
	}
	if _, code := nextVersion(n.version, r.Version); code != wire.CodeOK {
		return t, code
	}
	if n.childCount > 0 {
		return t, wire.CodeNotEmpty
	}
	parent.pzxid = v.zxid
	parent.childCount--
	v.grow(c, -1, -len(r.Path)-v.tree.length(r.Path)-aclSize(n.acl))
	v.put(parentPath, &parent)
	v.put(r.Path, nil)
	return t, wire.CodeOK
}

func (v *view) setData(c *caller, r *wire.SetDataRequest) (txn, wire.Code) {
	t := txn{op: wire.OpSetData, reply: wire.OpSetData, path: r.Path, data: r.Data}
	n, code := v.changeable(c, r.Path, wire.PermWrite)
	if code != wire.CodeOK {
		return t, code
	}
	if c.enforceQuota && v.tree.exceeds(r.Path, 0, len(r.Data)-v.tree.length(r.Path)) {
		return t, wire.CodeQuotaExceeded
	}
	if t.version, code = nextVersion(n.version, r.Version); code != wire.CodeOK {
		return t, code
	}
	if !v.grow(c, 0, len(r.Data)-v.tree.length(r.Path)) {
		return t, wire.CodeQuotaExceeded
	}
	n.version, n.mzxid, n.mtime = t.version, v.zxid, v.now
	v.put(r.Path, &n)
	return t, wire.CodeOK
}

func (v *view) setACL(c *caller, r *wire.SetACLRequest) (txn, wire.Code) {
	t := txn{op: wire.OpSetACL, reply: wire.OpSetACL, path: r.Path}
	if !validPath(r.Path) {
		return t, wire.CodeBadArguments
	}
	var ok bool
	if t.acl, ok = fixACL(r.ACL, c.ids); !ok {
		return t, wire.CodeInvalidACL
	}
	n, code := v.changeable(c, r.Path, wire.PermAdmin)
	if code != wire.CodeOK {
		return t, code
	}
	if t.version, code = nextVersion(n.aversion, r.Version); code != wire.CodeOK {
		return t, code
	}
	if !v.grow(c, 0, aclSize(t.acl)-aclSize(n.acl)) {
		return t, wire.CodeQuotaExceeded
	}
	n.aversion, n.acl = t.version, t.acl
	v.put(r.Path, &n)
	return t, wire.CodeOK
}

func (v *view) checkVersion(c *caller, r *wire.PathVersionRequest) (txn, wire.Code) {
	t := txn{op: wire.OpCheck, reply: wire.OpCheck, path: r.Path}
	n, code := v.changeable(c, r.Path, wire.PermRead)
	if code != wire.CodeOK {
		return t, code
	}
	_, code = nextVersion(n.version, r.Version)
	return t, code
}

// changeable returns the record of the node at path if the caller has perm.
func (v *view) changeable(c *caller, path string, perm int32) (record, wire.Code) {
	if !validPath(path) {
		return record{}, wire.CodeBadArguments
	}
	n, ok := v.get(path)
	if !ok {
		return record{}, wire.CodeNoNode
	}
	if !allowed(n.acl, perm, c.ids) {
		return record{}, wire.CodeNoAuth
	}
	return n, wire.CodeOK
}
