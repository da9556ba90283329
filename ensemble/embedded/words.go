package embedded

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is what the server calls itself where tools look for the release:
// the one that it answers like.
const version = "3.8.0-baton, built on 2022-02-25 08:49 UTC"

// words are ZooKeeper's four-letter words: sent in the place of a connect
// request, each is answered by a text, and the connection ends. All are
// allowed, whereas a real server has to be told so.
var words = map[string]func(s *Server, c *conn, b *strings.Builder){
	"ruok": func(_ *Server, _ *conn, b *strings.Builder) { b.WriteString("imok") },
	"isro": func(_ *Server, _ *conn, b *strings.Builder) { b.WriteString("rw") },
	"dirs": func(_ *Server, _ *conn, b *strings.Builder) { b.WriteString("datadir_size: 0\nlogdir_size: 0\n") },
	"srvr": (*Server).srvr,
	"stat": (*Server).stat,
	"cons": (*Server).cons,
	"crst": (*Server).crst,
	"srst": (*Server).srst,
	"dump": (*Server).dump,
	"mntr": (*Server).mntr,
	"conf": (*Server).conf,
	"envi": (*Server).envi,
	"wchs": (*Server).wchs,
	"wchc": (*Server).wchc,
	"wchp": (*Server).wchp,
}

// wordPiece is how many bytes of an answer a real server sends, and counts, at
// a time.
const wordPiece = 8192

// word answers a four-letter word, if that is what the client has sent.
func (c *conn) word() bool {
	four, err := c.in.Peek(4)
	if err != nil {
		return false // shows when the frame is read
	}
	answer, ok := words[string(four)]
	if !ok {
		return false
	}
	_, _ = c.in.Discard(len(four)) // they are there
	c.received()
	var b strings.Builder
	answer(c.srv, c, &b)
	c.out.push([]byte(b.String()), false)
	for range max(1, (b.Len()+wordPiece-1)/wordPiece) {
		c.sent()
	}
	return true
}

// everyone returns all connections in the order in which they came.
func (s *Server) everyone() []*conn {
	conns := s.connections(nil)
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	return conns
}

func (s *Server) srvr(_ *conn, b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", version)
	s.statistics(b)
}

func (s *Server) stat(c *conn, b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", version)
	for _, other := range s.everyone() {
		other.brief(b, other == c)
		b.WriteString(")\n")
	}
	b.WriteByte('\n')
	s.statistics(b)
}

func (s *Server) statistics(b *strings.Builder) {
	conns := len(s.connections(nil))
	s.mu.RLock()
	defer s.mu.RUnlock()
	least, mean, most := s.traffic.latency()
	fmt.Fprintf(b, "Latency min/avg/max: %d/%s/%d\n", least, decimal(mean), most)
	fmt.Fprintf(b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: 0\n",
		s.traffic.received.Load(), s.traffic.sent.Load(), conns)
	fmt.Fprintf(b, "Zxid: %s\nMode: standalone\nNode count: %d\n", hex(s.zxid), len(s.tree.nodes))
}

// decimal shows a number as Java does one that was rounded to four places.
func decimal(f float64) string {
	text := strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0")
	if strings.HasSuffix(text, ".") {
		text += "0"
	}
	return text
}

func (s *Server) cons(c *conn, b *strings.Builder) {
	for _, other := range s.everyone() {
		other.brief(b, other == c)
		other.full(b)
		b.WriteString(")\n")
	}
	b.WriteByte('\n')
}

// brief writes the line of a connection in "stat". The number in brackets says
// what the server waits for: to read, unless it is busy with a word.
func (c *conn) brief(b *strings.Builder, busy bool) {
	interest := 1
	if busy {
		interest = 0
	}
	fmt.Fprintf(b, " /%s[%d](queued=0,recved=%d,sent=%d", c.nc.RemoteAddr(), interest,
		c.traffic.received.Load(), c.traffic.sent.Load())
}

// full writes what "cons" has besides, if there is a session.
func (c *conn) full(b *strings.Builder) {
	c.srv.mu.RLock()
	defer c.srv.mu.RUnlock()
	if c.session == nil {
		return
	}
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	fmt.Fprintf(b, ",sid=%s,lop=%s,est=%d,to=%d", hex(c.session.id), c.last.op, c.since.UnixMilli(), c.session.timeout.Milliseconds())
	if c.last.xid >= 0 {
		fmt.Fprintf(b, ",lcxid=%s", hex(c.last.xid))
	}
	least, mean, most := c.traffic.latency()
	fmt.Fprintf(b, ",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d",
		hex(c.last.zxid), c.last.at.Milliseconds(), c.last.ms, least, int64(mean), most)
}

func (s *Server) crst(_ *conn, b *strings.Builder) {
	for _, c := range s.connections(nil) {
		c.traffic.reset()
		c.last.reset()
	}
	b.WriteString("Connection stats reset.\n")
}

func (s *Server) srst(_ *conn, b *strings.Builder) {
	s.traffic.reset()
	b.WriteString("Server stats reset.\n")
}

// javaDate is how Java shows a time.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// dump writes what lives: sessions, ephemeral nodes, connections. The former
// and the latter are sets that end at the same time.
func (s *Server) dump(_ *conn, b *strings.Builder) {
	conns := s.everyone()
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := s.sessionIDs()
	b.WriteString("SessionTracker dump:\nSession ")
	writeSets(s, b, ids, func(id int64) (time.Duration, string) {
		return time.Duration(s.sessions[id].deadline.Load()), hex(id)
	})
	b.WriteString("ephemeral nodes dump:\n")
	ids = slices.DeleteFunc(ids, func(id int64) bool { return !s.sessions[id].owner })
	fmt.Fprintf(b, "Sessions with Ephemerals (%d):\n", len(ids))
	for _, id := range ids {
		fmt.Fprintf(b, "%s:\n", hex(id))
		for _, path := range s.sessions[id].kept() {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteString("Connections dump:\nConnections ")
	writeSets(s, b, conns, func(c *conn) (time.Duration, string) {
		ends, id := c.began+handshakeTimeout, int64(0)
		if c.session != nil {
			ends, id = time.Duration(c.session.deadline.Load()), c.session.id
		}
		return ends, fmt.Sprintf("ip: /%s sessionId: %s", c.nc.RemoteAddr(), hex(id))
	})
}

// writeSets writes elements by when they end.
func writeSets[E any](s *Server, b *strings.Builder, elements []E, show func(E) (ends time.Duration, text string)) {
	sets := make(map[time.Duration][]string)
	for _, e := range elements {
		ends, text := show(e)
		sets[ends] = append(sets[ends], text)
	}
	fmt.Fprintf(b, "Sets (%d)/(%d):\n", len(sets), len(elements))
	for _, ends := range sortedKeys(sets) {
		at := time.Now().Add(ends - s.clock.elapsed())
		fmt.Fprintf(b, "%d expire at %s:\n", len(sets[ends]), at.Format(javaDate))
		for _, text := range sets[ends] {
			fmt.Fprintf(b, "\t%s\n", text)
		}
	}
}

// The words about watches tell of those on data only, as ZooKeeper's do.

func (s *Server) wchs(_ *conn, b *strings.Builder) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := &s.dataWatches
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", len(w.byConn), len(w.byPath), w.size())
}

func (s *Server) wchc(_ *conn, b *strings.Builder) {
	conns := s.everyone()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range conns {
		paths := s.dataWatches.paths(c)
		if len(paths) == 0 {
			continue
		}
		fmt.Fprintf(b, "%s\n", hex(c.sid.Load()))
		for _, path := range paths {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	b.WriteByte('\n')
}

func (s *Server) wchp(_ *conn, b *strings.Builder) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, path := range sortedKeys(s.dataWatches.byPath) {
		fmt.Fprintf(b, "%s\n", path)
		var ids []int64
		for c := range s.dataWatches.byPath[path] {
			ids = append(ids, c.sid.Load())
		}
		slices.Sort(ids)
		for _, id := range ids {
			fmt.Fprintf(b, "\t%s\n", hex(id))
		}
	}
	b.WriteByte('\n')
}
