package embedded_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonzk/baton/ensemble/apache"
	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/internal/wire"
)

// ask sends a four-letter word and returns all that comes back.
func ask(nc net.Conn, word string) string {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	must(io.WriteString(nc, word))
	return string(must(io.ReadAll(nc)))
}

// wordMasks hide what differs from run to run, and from server to server.
var wordMasks = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`3\.8\.0-.*`), "VERSION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d [A-Z]+ \d{4}`), "DATE"},
	{regexp.MustCompile(`0x[0-9a-f]{8,15}\b`), "SESSION"},
	{regexp.MustCompile(`(est|lresp|llat|minlat|avglat|maxlat)=\d+`), "$1=N"},
	{regexp.MustCompile(`(min/avg/max: )\d+/\d+\.\d+/\d+`), "${1}N"},
	{regexp.MustCompile(`((?:clientPort|datadir_size|logdir_size|dataDirSize|dataLogSize)[=:] ?)-?\d+`), "${1}N"},
	{regexp.MustCompile(`(dataDir|dataLogDir)=.*`), "$1=FOLDER"},
	{regexp.MustCompile(`Sets \(\d+\)/`), "Sets (N)/"},
	{regexp.MustCompile(`\n\d+ expire at`), "\nN expire at"},
	{regexp.MustCompile(`(avg_latency|min_latency|max_latency|uptime|file_descriptor_count)\t[0-9.]+`), "$1\tN"},
	{regexp.MustCompile(`(?m)^((?:java|os|user|host)\..*?)=.*$`), "$1=TEXT"},
}

// unordered are the words whose answers a real server lists in the order of a
// hash table of objects, that is in any.
var unordered = []string{"stat", "cons", "dump", "mntr", "wchc", "wchp"}

func masked(word, answer string) string {
	for _, m := range wordMasks {
		answer = m.pattern.ReplaceAllString(answer, m.replacement)
	}
	lines := strings.SplitAfter(answer, "\n")
	switch word {
	case "mntr": // which metrics there are, but not what is in those that are always 0 here
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "_per_namespace") })
		for i, line := range lines {
			name, _, _ := strings.Cut(line, "\t")
			if !slices.Contains(counted, name) {
				lines[i] = name
			}
		}
	case "dump": // sets are formed by the times at which they end
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "expire at") })
	}
	if slices.Contains(unordered, word) {
		slices.Sort(lines)
	}
	return strings.Join(lines, "")
}

// counted are the metrics that the embedded server keeps.
var counted = strings.Fields(`zk_version zk_server_state zk_ephemerals_count zk_num_alive_connections
	zk_outstanding_requests zk_znode_count zk_global_sessions zk_packets_sent zk_packets_received zk_watch_count
	zk_approximate_data_size zk_local_sessions zk_connection_drop_probability`)

// TestWordsOnApache does the same on a real server and an embedded one, and
// asks both.
func TestWordsOnApache(t *testing.T) {
	real := testenv.StartApache(t, 1, apache.WithConfig("maxSessionTimeout=2000"))
	srv := start(t, embedded.WithTick(100*time.Millisecond))
	servers := map[string]string{"real": real.Connect(), "embedded": must(srv.Listen("127.0.0.1:0")).String()}
	// The real server was asked whether it serves, which it counts.
	for _, addr := range servers {
		for _, word := range []string{"srst", "crst"} {
			ask(must(net.Dial("tcp", addr)), word)
		}
	}
	sessions := map[string][]*client{}
	for name, addr := range servers {
		sessions[name] = wordSessions(t, addr)
	}
	both := func(word string) (real, embedded string) {
		return masked(word, ask(must(net.Dial("tcp", servers["real"])), word)),
			masked(word, ask(must(net.Dial("tcp", servers["embedded"])), word))
	}
	for word := range strings.FieldsSeq("ruok isro srvr stat cons dump mntr conf envi wchs wchc wchp dirs xxxx crst cons srst srvr mntr dump") {
		for name := range servers {
			for _, c := range sessions[name] {
				c.ok(wire.OpPing, new(wire.Empty), nil)
			}
		}
		// A real server counts a frame just after it was sent, and this is the
		// last count that changes.
		bound := time.Now().Add(10 * time.Second)
		for settled := false; !settled; {
			real, embedded := both("srvr")
			if settled = real == embedded; !settled && time.Now().After(bound) {
				t.Fatalf("before %s: - real server, + embedded:\n%s", word, difference(real, embedded))
			}
		}
		if real, embedded := both(word); real != embedded {
			t.Errorf("%s: - real server, + embedded:\n%s", word, difference(real, embedded))
		}
		both("srst") // how often mntr is counted hangs on its length, which is not always the same
	}
}

// difference lists the lines that only one of two answers has.
func difference(real, embedded string) string {
	var only strings.Builder
	inReal, inEmbedded := strings.Split(real, "\n"), strings.Split(embedded, "\n")
	for _, line := range inReal {
		if !slices.Contains(inEmbedded, line) {
			fmt.Fprintln(&only, "-", line)
		}
	}
	for _, line := range inEmbedded {
		if !slices.Contains(inReal, line) {
			fmt.Fprintln(&only, "+", line)
		}
	}
	return only.String()
}

// wordSessions makes two sessions with nodes and watches.
func wordSessions(t *testing.T, addr string) []*client {
	open := func() *client {
		return wrap(t, must(net.Dial("tcp", addr))).open(&wire.ConnectRequest{TimeoutMillis: 2000, Password: make([]byte, 16), HasReadOnly: true})
	}
	a, b := open(), open()
	a.create("/w", "data", wire.ModePersistent)
	for i := range 3 {
		a.create(fmt.Sprintf("/w/e%d", i), "", wire.ModeEphemeral)
	}
	b.get("/w", true)
	b.children("/w", true)
	b.get("/w/e0", true)
	a.get("/w/e0", true)
	a.ok(wire.OpAddWatch, &wire.WatchTypeRequest{Path: "/w/e1", Type: wire.AddWatchPersistentRecursive}, new(wire.ErrorResponse))
	b.create("/gone", "", wire.ModeEphemeral)
	b.delete("/gone")
	b.set("/w/e1", "more")
	a.sync()
	return []*client{a, b}
}

// Words work over the pipe, and after what a terminal adds.
func TestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		c := connect(t, srv)
		c.create("/e", "", wire.ModeEphemeral)
		if got := ask(dialPipe(srv)(), "ruok"); got != "imok" {
			t.Errorf("ruok: %q", got)
		}
		if got := ask(dialPipe(srv)(), "srvr\n"); !strings.Contains(got, "Zxid: 0x2\nMode: standalone\nNode count: 6\n") {
			t.Errorf("srvr: %q", got)
		}
		ask(dialPipe(srv)(), "srst") // which is counted after it
		long := len(ask(dialPipe(srv)(), "mntr"))
		if got := ask(dialPipe(srv)(), "srvr"); long < 8192 || long > 2*8192 || !strings.Contains(got, "\nSent: 3\n") {
			t.Errorf("srvr after mntr of %d bytes: %q", long, got)
		}
		time.Sleep(time.Second)
		got := ask(dialPipe(srv)(), "dump")
		for _, want := range []string{"Session Sets (1)/(1):", "Sessions with Ephemerals (1):", "\t/e\n", "Connections Sets (2)/(2):"} {
			if !strings.Contains(got, want) {
				t.Errorf("dump has no %q:\n%s", want, got)
			}
		}
	})
}
