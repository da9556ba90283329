package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/wire"
)

// Clients that send without waiting, while all faults happen at once. In the
// end nothing is left of them but their persistent nodes.
func TestEverythingAtOnce(t *testing.T) {
	srv := start(t, embedded.WithTick(10*time.Millisecond), embedded.WithContainerInterval(20*time.Millisecond))
	over := make(chan struct{})
	var sessions passwords
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := range 60 {
				restless(t, srv, rand.New(rand.NewPCG(uint64(i), uint64(n))), &sessions)
			}
		})
	}
	go func() { wg.Wait(); close(over) }()
	rnd := rand.New(rand.NewPCG(7, 7))
	for done := false; !done; {
		select {
		case <-over:
			done = true
		case <-time.After(100 * time.Microsecond): // a pace, not a wait for anything
			disturb(srv, rnd)
		}
	}
	srv.Refuse(false)
	srv.Unfreeze()
	srv.Unsilence()
	srv.Close()
	for _, info := range srv.Sessions() {
		_ = srv.ExpireSession(info.ID) // it may have expired by itself
	}
	if n := len(srv.Sessions()); n > 0 {
		t.Errorf("%d sessions are left", n)
	}
	if n := srv.WatchCount(); n > 0 {
		t.Errorf("%d watches are left", n)
	}
	if dump := srv.Dump(); strings.Contains(dump, "ephemeral") {
		t.Errorf("ephemeral nodes are left:\n%s", dump)
	}
}

// restless connects, now and then to somebody's session, sends some requests and
// hangs up. What comes back is in order.
func restless(t *testing.T, srv *embedded.Server, rnd *rand.Rand, sessions *passwords) {
	nc, err := srv.DialContext(context.Background(), "", "")
	if err != nil {
		return
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(20 * time.Millisecond))
	hello := wire.ConnectRequest{TimeoutMillis: 30, Password: make([]byte, 16)}
	if rnd.IntN(3) == 0 {
		hello.SessionID, hello.Password = sessions.any(rnd)
	}
	frames := wire.AppendFrame(nil, &hello)
	n := int32(rnd.IntN(40))
	for xid := range n {
		path := fmt.Sprintf("/%c", 'a'+rnd.IntN(4))
		if rnd.IntN(2) == 0 {
			path += fmt.Sprintf("/%c", 'a'+rnd.IntN(4))
		}
		op, r := restlessRequest(rnd, path)
		frames = wire.AppendFrame(frames, &wire.RequestHeader{Xid: xid, Op: op}, r)
	}
	if _, err := nc.Write(frames); err == nil {
		inOrder(t, bufio.NewReader(io.LimitReader(nc, int64(rnd.IntN(4000)))), sessions)
	}
}

// inOrder takes the answer to a connect request and checks that the numbers of
// the requests and of the transactions in what follows go up.
func inOrder(t *testing.T, in *bufio.Reader, sessions *passwords) {
	c := &client{t: t, nc: new(net.TCPConn), in: in} // its deadlines are the caller's
	var hello wire.ConnectResponse
	frame, err := c.frame()
	if err != nil || wire.NewDecoder(frame).Decode(&hello) != nil {
		return // cut off
	}
	sessions.add(hello.SessionID, hello.Password)
	last := wire.ReplyHeader{Xid: -1}
	for {
		frame, err := c.frame()
		if err != nil {
			return
		}
		var h wire.ReplyHeader
		if err := wire.NewDecoder(frame).Decode(&h); err != nil {
			t.Error(err)
			return
		}
		if h.Xid == wire.XidNotify {
			continue
		}
		if h.Xid <= last.Xid || h.Zxid < last.Zxid {
			t.Errorf("reply %+v after %+v", h, last)
		}
		last = h
	}
}

// passwords are those of the sessions that there were.
type passwords struct {
	mu  sync.Mutex
	all []wire.ConnectResponse
}

func (p *passwords) add(id int64, password []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, wire.ConnectResponse{SessionID: id, Password: password})
}

// any returns one of the last ten, or none.
func (p *passwords) any(rnd *rand.Rand) (id int64, password []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		return 0, make([]byte, 16)
	}
	s := p.all[len(p.all)-1-rnd.IntN(min(10, len(p.all)))]
	return s.SessionID, s.Password
}

func restlessRequest(rnd *rand.Rand, path string) (wire.OpCode, wire.Record) {
	create := &wire.CreateRequest{Path: path, ACL: openACL, Flags: int32(rnd.IntN(4))}
	switch rnd.IntN(11) {
	case 9:
		return wire.OpSetWatches2, &wire.SetWatches2Request{
			SetWatchesRequest: wire.SetWatchesRequest{RelativeZxid: int64(rnd.IntN(1000)), Data: []string{path}, Exist: []string{path}, Child: []string{path}},
			Persistent:        []string{path},
		}
	case 10:
		return wire.OpRemoveWatches, &wire.WatchTypeRequest{Path: path, Type: wire.WatcherAny}
	case 0, 1:
		return wire.OpCreate2, create
	case 2:
		return wire.OpCreateContainer, create
	case 3:
		return wire.OpDelete, &wire.PathVersionRequest{Path: path, Version: -1}
	case 4:
		return wire.OpSetData, &wire.SetDataRequest{Path: path, Version: -1}
	case 5:
		return wire.OpGetChildren2, &wire.PathWatchRequest{Path: path, Watch: true}
	case 6:
		return wire.OpExists, &wire.PathWatchRequest{Path: path, Watch: true}
	case 7:
		return wire.OpAddWatch, &wire.WatchTypeRequest{Path: path, Type: int32(rnd.IntN(2))}
	}
	return wire.OpMulti, &wire.MultiRequest{Ops: []wire.Op{
		{Code: wire.OpCreate, Request: create},
		{Code: wire.OpDelete, Request: &wire.PathVersionRequest{Path: path, Version: -1}},
	}}
}

// disturb does one of all the things that can be done to a server.
func disturb(srv *embedded.Server, rnd *rand.Rand) {
	sessions := srv.Sessions()
	any := int64(0)
	if len(sessions) > 0 {
		any = sessions[rnd.IntN(len(sessions))].ID
	}
	switch rnd.IntN(16) {
	case 0:
		srv.DropConnections(any)
	case 1:
		_ = srv.ExpireSession(any)
	case 2:
		srv.Silence(any)
	case 3:
		srv.Unsilence()
	case 4:
		srv.Advance(time.Duration(rnd.IntN(20)) * time.Millisecond)
	case 5:
		srv.ReapContainers()
	case 6:
		_ = srv.SetSequence("/a", int32(rnd.Uint32()))
	case 7:
		remove := srv.OnReply(func(embedded.Request) embedded.Verdict { return embedded.Drop })
		defer remove()
		srv.Watches()
	case 8:
		srv.LoseReply(func(r embedded.Request) bool { return r.Session == any && r.Op == "delete" })
	case 9:
		srv.Dump()
	case 10:
		srv.Lag(any)
	case 11:
		srv.Lag()
	case 12:
		srv.CatchUp()
	case 13:
		srv.Freeze()
	case 14:
		srv.Unfreeze()
	case 15:
		srv.Refuse(rnd.IntN(4) == 0)
	}
}
