package embedded

import (
	"cmp"
	"slices"

	"github.com/batonzk/baton/internal/wire"
)

// auth adds an identity to the connection. After an unknown scheme the
// connection is closed.
func (s *Server) auth(c *conn, r *wire.AuthRequest) (wire.Record, wire.Code) {
	switch r.Scheme {
	case "digest":
		if r.Auth == nil {
			return nil, wire.CodeAuthFailed
		}
		id := digest(string(r.Auth))
		if id == s.cfg.super {
			c.identify(identity{"super", ""})
		}
		c.identify(identity{"digest", id})
		if size(c.ids) > s.cfg.maxAuth {
			c.close("too many identities")
		}
	case "ip": // proved by connecting
	default:
		return nil, wire.CodeAuthFailed
	}
	return nil, wire.CodeOK
}

// identify adds id to what the connection has proved, in the order in which a
// real server lists it.
func (c *conn) identify(id identity) {
	if slices.Contains(c.ids, id) {
		return
	}
	c.ids = append(slices.Clone(c.ids), id)
	set := hashSet{16}
	set.added(len(c.ids))
	mask := uint32(set.buckets - 1)
	slices.SortStableFunc(c.ids, func(a, b identity) int {
		return cmp.Compare(a.hash()&mask, b.hash()&mask)
	})
}

// size returns how many bytes identities take, about.
func size(ids []identity) int {
	n := 0
	for _, i := range ids {
		n += len(i.id) + 64
	}
	return n
}

// hash is the hash code of ZooKeeper's Id, spread.
func (i identity) hash() uint32 {
	return spread((17*37+stringHash(i.scheme))*37 + stringHash(i.id))
}

// whoAmI lists what the connection has proved.
func (s *Server) whoAmI(c *conn, _ *wire.Empty) (wire.Record, wire.Code) {
	response := new(wire.WhoAmIResponse)
	for _, id := range c.ids {
		response.Clients = append(response.Clients, wire.ClientInfo{Scheme: id.scheme, User: id.user()})
	}
	return response, wire.CodeOK
}
