package embedded

import (
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// openACL lets anyone do anything.
var openACL = []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}

// An identity is one that a connection has proved.
type identity struct{ scheme, id string }

// user returns the part of the identity that names its owner.
func (i identity) user() string {
	switch i.scheme {
	case "digest":
		user, _, _ := strings.Cut(i.id, ":")
		return user
	case "ip":
		return i.id
	}
	return ""
}

// digest returns the identity that "user:password" proves.
func digest(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// allowed reports whether acl grants one of perms to one of ids.
func allowed(acl []wire.ACL, perms int32, ids []identity) bool {
	if len(acl) == 0 || slices.ContainsFunc(ids, func(i identity) bool { return i.scheme == "super" }) {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		if slices.ContainsFunc(ids, func(i identity) bool { return i.matches(a) }) {
			return true
		}
	}
	return false
}

func (i identity) matches(a wire.ACL) bool {
	if i.scheme != a.Scheme {
		return false
	}
	switch a.Scheme {
	case "digest":
		return i.id == a.ID
	case "ip":
		prefix, ok := parsePrefix(a.ID)
		addr, err := netip.ParseAddr(i.id)
		return ok && err == nil && prefix.Contains(addr)
	}
	return false
}

// maxACL is how many entries an ACL may have. Each is looked at, for each
// identity, with the server's lock held.
const maxACL = 1000

// entrySize is what an entry of an ACL takes besides the text in it.
const entrySize = 40

// fixACL returns acl as it is stored: without duplicates and with "auth"
// replaced by the identities of the caller. It is not ok if it is empty or
// too long, or names something that cannot be proved.
func fixACL(acl []wire.ACL, ids []identity) (fixed []wire.ACL, ok bool) {
	for i, a := range acl {
		if i >= maxACL || len(fixed) > maxACL {
			return nil, false
		}
		if slices.Contains(acl[:i], a) {
			continue
		}
		switch a.Scheme {
		case "world":
			if a.ID != "anyone" {
				return nil, false
			}
			fixed = append(fixed, a)
		case "auth":
			n := len(fixed)
			for _, id := range ids {
				if id.scheme == "digest" {
					fixed = append(fixed, wire.ACL{Perms: a.Perms, Scheme: id.scheme, ID: id.id})
				}
			}
			if len(fixed) == n {
				return nil, false
			}
		case "digest":
			if !validDigest(a.ID) {
				return nil, false
			}
			fixed = append(fixed, a)
		case "ip":
			if _, ok := parsePrefix(a.ID); !ok {
				return nil, false
			}
			fixed = append(fixed, a)
		default:
			return nil, false
		}
	}
	if slices.Equal(fixed, openACL) { // by far the most common: share it
		return openACL, true
	}
	return fixed, len(fixed) > 0 && len(fixed) <= maxACL
}

// aclSize returns how many bytes an ACL takes, 0 for the one that is shared.
func aclSize(acl []wire.ACL) int {
	if len(acl) > 0 && &acl[0] == &openACL[0] {
		return 0
	}
	n := 0
	for _, a := range acl {
		n += len(a.Scheme) + len(a.ID) + entrySize
	}
	return n
}

// validDigest reports whether id has a user and a digest. As in Java's split,
// colons at the end do not count.
func validDigest(id string) bool {
	return strings.Count(strings.TrimRight(id, ":"), ":") == 1
}

// parsePrefix reads the ID of an ip ACL: an IPv4 address and, after a slash,
// the number of bits that count.
func parsePrefix(id string) (netip.Prefix, bool) {
	host, bits, has := strings.Cut(id, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() {
		return netip.Prefix{}, false
	}
	n := 32
	if has {
		n, err = strconv.Atoi(bits)
	}
	if err != nil || n < 0 || n > 32 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, n), true
}

// hideDigests returns acl as it is shown to who may read but not administer
// the node.
func hideDigests(acl []wire.ACL) []wire.ACL {
	shown := slices.Clone(acl)
	for i, a := range shown {
		if a.Scheme != "digest" {
			continue
		}
		if user, _, ok := strings.Cut(a.ID, ":"); ok {
			shown[i].ID = user + ":x"
		}
	}
	return shown
}
