package framework

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"

	"github.com/batonzk/baton/internal/wire"
)

// Perm is a set of permissions.
type Perm int32

// The permissions of an [ACL].
const (
	PermRead   = Perm(wire.PermRead)   // read data and list children
	PermWrite  = Perm(wire.PermWrite)  // change data
	PermCreate = Perm(wire.PermCreate) // create children
	PermDelete = Perm(wire.PermDelete) // delete children
	PermAdmin  = Perm(wire.PermAdmin)  // change the ACL
	PermAll    = Perm(wire.PermAll)
)

// An ACL grants permissions on one node, not on its children, to an identity
// of an authentication scheme.
type ACL struct {
	Perms  Perm
	Scheme string
	ID     string
}

// An ACLProvider says which ACLs a node gets that is created at path, the
// full path under the chroot. It is asked for every node a client creates,
// parents too, and must be safe for concurrent use. If it gives none, the node is
// not made, and the call fails with [ErrInvalidACL].
type ACLProvider func(path string) []ACL

// WorldACL grants perms to everybody.
func WorldACL(perms Perm) []ACL { return []ACL{{Perms: perms, Scheme: "world", ID: "anyone"}} }

// AuthACL grants perms to whoever the client has authenticated as.
func AuthACL(perms Perm) []ACL { return []ACL{{Perms: perms, Scheme: "auth"}} }

// DigestACL grants perms to a user of the digest scheme. ZooKeeper defines
// the identity as user:base64(sha1(user:password)).
func DigestACL(perms Perm, user, password string) []ACL {
	sum := sha1.Sum([]byte(user + ":" + password))
	id := user + ":" + base64.StdEncoding.EncodeToString(sum[:])
	return []ACL{{Perms: perms, Scheme: "digest", ID: id}}
}

// validateACL refuses what no node can be made with.
func validateACL(acl []ACL) error {
	if len(acl) == 0 {
		return fmt.Errorf("%w: it is empty", ErrInvalidACL)
	}
	return nil
}

func wireACLs(acls []ACL) []wire.ACL {
	out := make([]wire.ACL, len(acls))
	for i, a := range acls {
		out[i] = wire.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

func fromWireACLs(acls []wire.ACL) []ACL {
	out := make([]ACL, len(acls))
	for i, a := range acls {
		out[i] = ACL{Perms: Perm(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}
