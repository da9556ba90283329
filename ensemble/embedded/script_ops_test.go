package embedded_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

var opByName = func() map[string]wire.OpCode {
	m := map[string]wire.OpCode{}
	for op := wire.OpCode(-11); op < 120; op++ {
		if name := op.String(); name != "unknown" {
			m[name] = op
		}
	}
	return m
}()

// parse turns an operation and its arguments into a request, and makes room
// for its reply.
func (s *script) parse(op string, args []string) (wire.OpCode, wire.Record, wire.Record) {
	if op == "multi" || op == "multiRead" {
		m := new(wire.MultiRequest)
		for part := range strings.SplitSeq(strings.Join(args, " "), ";") {
			if words := strings.Fields(part); len(words) > 0 {
				code, req, _ := s.parse(words[0], words[1:])
				m.Ops = append(m.Ops, wire.Op{Code: code, Request: req})
			}
		}
		return opByName[op], m, new(wire.MultiResponse)
	}
	if code, err := strconv.Atoi(op); err == nil { // any code, with no request record
		return wire.OpCode(code), new(wire.Empty), nil
	}
	code, ok := opByName[op]
	if !ok {
		s.t.Fatalf("operation %q", op)
	}
	a := func(i int) string {
		if i < len(args) {
			return strings.NewReplacer(`\0`, "\x00", `\x7f`, "\x7f", `""`, "").Replace(args[i])
		}
		return ""
	}
	req, reply := s.record(code, a)
	return code, req, reply
}

// record makes the request of op; a yields its arguments.
func (s *script) record(op wire.OpCode, a func(int) string) (req, reply wire.Record) {
	switch op {
	case wire.OpCreate:
		return &wire.CreateRequest{Path: a(0), Flags: s.num(a(1)), Data: data(a(2)), ACL: acl(a(3))}, new(wire.CreateResponse)
	case wire.OpCreate2, wire.OpCreateContainer:
		return &wire.CreateRequest{Path: a(0), Flags: s.num(a(1)), Data: data(a(2)), ACL: acl(a(3))}, new(wire.Create2Response)
	case wire.OpCreateTTL:
		return &wire.CreateTTLRequest{
			CreateRequest: wire.CreateRequest{Path: a(0), Flags: s.num(a(1)), ACL: openACL},
			TTL:           int64(s.num(a(2))),
		}, new(wire.Create2Response)
	case wire.OpDelete:
		return &wire.PathVersionRequest{Path: a(0), Version: s.num(a(1))}, nil
	case wire.OpCheck:
		return &wire.PathVersionRequest{Path: a(0), Version: s.num(a(1))}, new(wire.StatResponse)
	case wire.OpSetData:
		return &wire.SetDataRequest{Path: a(0), Data: data(a(1)), Version: s.num(a(2))}, new(wire.StatResponse)
	case wire.OpSetACL:
		return &wire.SetACLRequest{Path: a(0), ACL: acl(a(1)), Version: s.num(a(2))}, new(wire.StatResponse)
	case wire.OpExists:
		return &wire.PathWatchRequest{Path: a(0), Watch: a(1) != ""}, new(wire.StatResponse)
	case wire.OpGetData:
		return &wire.PathWatchRequest{Path: a(0), Watch: a(1) != ""}, new(wire.GetDataResponse)
	case wire.OpGetChildren:
		return &wire.PathWatchRequest{Path: a(0), Watch: a(1) != ""}, new(wire.StringsResponse)
	case wire.OpGetChildren2:
		return &wire.PathWatchRequest{Path: a(0), Watch: a(1) != ""}, new(wire.GetChildren2Response)
	case wire.OpGetACL:
		return &wire.PathRequest{Path: a(0)}, new(wire.GetACLResponse)
	case wire.OpSync:
		return &wire.PathRequest{Path: a(0)}, new(wire.PathRequest)
	case wire.OpGetEphemerals:
		return &wire.PathRequest{Path: a(0)}, new(wire.StringsResponse)
	case wire.OpGetAllChildrenNumber:
		return &wire.PathRequest{Path: a(0)}, new(wire.CountResponse)
	case wire.OpAuth:
		return &wire.AuthRequest{Scheme: a(0), Auth: []byte(a(1))}, nil
	case wire.OpAddWatch:
		return &wire.WatchTypeRequest{Path: a(0), Type: s.num(a(1))}, new(wire.ErrorResponse)
	case wire.OpRemoveWatches, wire.OpCheckWatches:
		return &wire.WatchTypeRequest{Path: a(0), Type: s.num(a(1))}, nil
	case wire.OpWhoAmI:
		return new(wire.Empty), new(wire.WhoAmIResponse)
	case wire.OpReconfig:
		return &wire.ReconfigRequest{Config: -1}, new(wire.GetDataResponse)
	case wire.OpSetWatches:
		return s.setWatches(a), nil
	case wire.OpSetWatches2:
		return &wire.SetWatches2Request{
			SetWatchesRequest: *s.setWatches(a), Persistent: list(a(4)), PersistentRecursive: list(a(5)),
		}, nil
	case wire.OpPing, wire.OpCloseSession:
		return new(wire.Empty), nil
	}
	s.t.Fatalf("operation %v", op)
	return nil, nil
}

// setWatches takes a transaction counted from the base, then the three lists.
func (s *script) setWatches(a func(int) string) *wire.SetWatchesRequest {
	return &wire.SetWatchesRequest{
		RelativeZxid: s.base + int64(s.num(a(0))), Data: list(a(1)), Exist: list(a(2)), Child: list(a(3)),
	}
}

// num reads a number; none is -1.
func (s *script) num(word string) int32 {
	if word == "" {
		return -1
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return int32(n)
}

// data is a word as it is, "null", or "N*x": N times x.
func data(word string) []byte {
	if n, x, ok := strings.Cut(word, "*"); ok {
		count, _ := strconv.Atoi(n)
		return bytes.Repeat([]byte(x), count)
	}
	if word == "null" {
		return nil
	}
	return []byte(word)
}

// list reads paths separated by commas; "-" is none.
func list(word string) []string {
	if word == "" || word == "-" {
		return nil
	}
	return strings.Split(word, ",")
}

// acl reads entries of the form perms|scheme|id, separated by commas. Without
// one it is open; "-" is none.
func acl(word string) []wire.ACL {
	if word == "" {
		return openACL
	}
	var acl []wire.ACL
	for _, entry := range list(word) {
		f := strings.Split(entry, "|")
		perms, _ := strconv.Atoi(f[0])
		acl = append(acl, wire.ACL{Perms: int32(perms), Scheme: f[1], ID: f[2]})
	}
	return acl
}

// zxid shows a transaction number as counted from the base.
func (s *script) zxid(z int64) string {
	if z <= 0 {
		return fmt.Sprintf("z%d", z)
	}
	return fmt.Sprintf("z%+d", z-s.base)
}

func (s *script) owner(id int64) string {
	if name, ok := s.names[id]; ok || id == 0 {
		return name
	}
	return "?"
}

func (s *script) stat(st wire.Stat) string {
	return fmt.Sprintf(" [c %s m %s p %s versions %d %d %d owner %q data %d children %d]",
		s.zxid(st.Czxid), s.zxid(st.Mzxid), s.zxid(st.Pzxid), st.Version, st.Cversion, st.Aversion,
		s.owner(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// format shows a reply without what differs from run to run.
func (s *script) format(reply wire.Record) string {
	switch r := reply.(type) {
	case *wire.CreateResponse:
		return " " + r.Path
	case *wire.Create2Response:
		return " " + r.Path + s.stat(r.Stat)
	case *wire.StatResponse:
		return s.stat(r.Stat)
	case *wire.GetDataResponse:
		if r.Data == nil {
			return " null" + s.stat(r.Stat)
		}
		if len(r.Data) > 1000 {
			return fmt.Sprintf(" %q...%s", r.Data[:3], s.stat(r.Stat))
		}
		return fmt.Sprintf(" %q%s", r.Data, s.stat(r.Stat))
	case *wire.StringsResponse:
		return " " + strings.Join(r.Names, ",")
	case *wire.GetChildren2Response:
		return " " + strings.Join(r.Children, ",") + s.stat(r.Stat)
	case *wire.GetACLResponse:
		return fmt.Sprintf(" %v%s", r.ACL, s.stat(r.Stat))
	case *wire.PathRequest:
		return " " + r.Path
	case *wire.CountResponse:
		return fmt.Sprintf(" %d", r.Count)
	case *wire.ErrorResponse:
		return fmt.Sprintf(" error %d", r.Err)
	case *wire.WhoAmIResponse:
		return fmt.Sprintf(" %v", r.Clients)
	case *wire.MultiResponse:
		var b strings.Builder
		for _, res := range r.Results {
			fmt.Fprintf(&b, "\n<   %v %d%s", res.Code, res.Err, s.format(res.Reply))
		}
		return b.String()
	}
	return ""
}
