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
		id := digest(string(r.Auth))
		if id == s.cfg.super {
			c.identify(identity{"super", ""})
		}
		c.identify(identity{"digest", id})
	case "ip": // proved by connecting
	default:
		return nil, wire.CodeAuthFailed
	}
	return nil, wire.CodeOK
}

func (c *conn) identify(id identity) {
	if !slices.Contains(c.ids, id) {
		c.ids = append(c.ids, id)
	}
}

// whoAmI lists what the connection has proved, in order.
func (s *Server) whoAmI(c *conn, _ *wire.Empty) (wire.Record, wire.Code) {
	response := new(wire.WhoAmIResponse)
	for _, id := range c.ids {
		response.Clients = append(response.Clients, wire.ClientInfo{Scheme: id.scheme, User: id.user()})
	}
	slices.SortFunc(response.Clients, func(a, b wire.ClientInfo) int {
		return cmp.Or(cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.User, b.User))
	})
	return response, wire.CodeOK
}
