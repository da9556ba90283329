package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// conf writes the settings. There are no files, so that their folder is empty.
func (s *Server) conf(_ *conn, b *strings.Builder) {
	tick := s.cfg.tick.Milliseconds()
	for _, line := range []struct {
		name  string
		value any
	}{
		{"clientPort", s.port()},
		{"secureClientPort", -1},
		{"dataDir", ""},
		{"dataDirSize", 0},
		{"dataLogDir", ""},
		{"dataLogSize", 0},
		{"tickTime", tick},
		{"maxClientCnxns", 0},
		{"minSessionTimeout", minTicks * tick},
		{"maxSessionTimeout", maxTicks * tick},
		{"clientPortListenBacklog", -1},
		{"serverId", 0},
	} {
		fmt.Fprintf(b, "%s=%v\n", line.name, line.value)
	}
}

// port returns a TCP port that the server listens on, -1 if there is none.
func (s *Server) port() int {
	s.net.Lock()
	defer s.net.Unlock()
	for l := range s.listeners {
		if addr, ok := (*l).Addr().(*net.TCPAddr); ok {
			return addr.Port
		}
	}
	return -1
}

// envi writes what the server runs on. What is Java's there says what it is
// in Go, if anything.
func (s *Server) envi(_ *conn, b *strings.Builder) {
	b.WriteString("Environment:\n")
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	me := new(user.User)
	if u, err := user.Current(); err == nil {
		me = u
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	for _, line := range [][2]string{
		{"zookeeper.version", version},
		{"host.name", host},
		{"java.version", runtime.Version()},
		{"java.vendor", "Go"},
		{"java.home", ""},
		{"java.class.path", ""},
		{"java.library.path", ""},
		{"java.io.tmpdir", os.TempDir()},
		{"java.compiler", runtime.Compiler},
		{"os.name", runtime.GOOS},
		{"os.arch", runtime.GOARCH},
		{"os.version", ""},
		{"user.name", me.Username},
		{"user.home", me.HomeDir},
		{"user.dir", dir},
		{"os.memory.free", megabytes(mem.HeapIdle)},
		{"os.memory.max", megabytes(mem.Sys)},
		{"os.memory.total", megabytes(mem.HeapSys)},
	} {
		fmt.Fprintf(b, "%s=%s\n", line[0], cmp.Or(line[1], "<NA>"))
	}
}

func megabytes(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }

// mntr writes all metrics: those that there are, then as 0 those of parts that
// only a real server has.
func (s *Server) mntr(_ *conn, b *strings.Builder) {
	conns := len(s.connections(nil))
	least, mean, most := s.traffic.latency()
	s.mu.RLock()
	defer s.mu.RUnlock()
	ephemerals := 0
	for _, ses := range s.sessions {
		ephemerals += len(ses.ephemerals)
	}
	for _, line := range []struct {
		name  string
		value any
	}{
		{"version", version},
		{"server_state", "standalone"},
		{"ephemerals_count", ephemerals},
		{"num_alive_connections", conns},
		{"avg_latency", decimal(mean)},
		{"outstanding_requests", 0},
		{"znode_count", len(s.tree.nodes)},
		{"global_sessions", len(s.sessions)},
		{"non_mtls_remote_conn_count", 0},
		{"last_client_response_size", -1},
		{"packets_sent", s.traffic.sent.Load()},
		{"packets_received", s.traffic.received.Load()},
		{"max_client_response_size", -1},
		{"connection_drop_probability", "0.0"},
		{"watch_count", s.dataWatches.size() + s.childWatches.size()},
		{"auth_failed_count", 0},
		{"min_latency", least},
		{"max_file_descriptor_count", maxFiles()},
		{"approximate_data_size", s.tree.size},
		{"open_file_descriptor_count", openFiles()},
		{"local_sessions", 0},
		{"uptime", s.clock.elapsed().Milliseconds()},
		{"max_latency", most},
		{"outstanding_tls_handshake", 0},
		{"min_client_response_size", -1},
		{"non_mtls_local_conn_count", 0},
	} {
		fmt.Fprintf(b, "zk_%s\t%v\n", line.name, line.value)
	}
	zeroes(b)
}

// zeroes writes the metrics that are not counted here.
func zeroes(b *strings.Builder) {
	for _, name := range counters {
		fmt.Fprintf(b, "zk_%s\t0\n", name)
	}
	summary := func(name string) {
		fmt.Fprintf(b, "zk_avg_%s\t0.0\n", name)
		for _, part := range []string{"min", "max", "cnt", "sum"} {
			fmt.Fprintf(b, "zk_%s_%s\t0\n", part, name)
		}
	}
	for _, name := range summaries {
		summary(name)
	}
	for _, name := range distributions {
		summary(name)
		for _, part := range []string{"p50", "p95", "p99", "p999"} {
			fmt.Fprintf(b, "zk_%s_%s\t0\n", part, name)
		}
	}
}

// openFiles counts the process's open files where /proc tells, else it is 0.
func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files)
}

// maxFiles is how many there may be, where /proc tells.
func maxFiles() int {
	text, _ := os.ReadFile("/proc/self/limits")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.Atoi(fields[0])
				return n
			}
		}
	}
	return 0
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
