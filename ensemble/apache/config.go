package apache

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ports of one server, all on 127.0.0.1.
type ports struct{ client, quorum, election int }

// layout is everything that the configuration of one server is made from. It
// does not change.
type layout struct {
	id      int // from 1
	members []ports
	dir     string // holds the data, the configuration and the log
	install installation
	options options
}

func (l *layout) data() string { return filepath.Join(l.dir, "data") }

func (l *layout) log() string { return filepath.Join(l.dir, "log") }

func (l *layout) config() string { return filepath.Join(l.dir, "zoo.cfg") }

// write makes the folders and files that the server reads when it starts.
func (l *layout) write() error {
	if err := os.MkdirAll(l.data(), 0o700); err != nil {
		return err
	}
	id := strconv.Itoa(l.id) + "\n"
	if err := os.WriteFile(filepath.Join(l.data(), "myid"), []byte(id), 0o600); err != nil {
		return err
	}
	text := strings.Join(l.lines(), "\n") + "\n"
	return os.WriteFile(l.config(), []byte(text), 0o600)
}

// lines returns the configuration. Of two lines with one name the server takes
// the later.
func (l *layout) lines() []string {
	tick := l.options.tick
	lines := []string{
		fmt.Sprintf("tickTime=%d", tick.Milliseconds()),
		fmt.Sprintf("initLimit=%d", max(5, 10*time.Second/tick)),
		fmt.Sprintf("syncLimit=%d", max(2, 2*time.Second/tick)),
		// Twenty ticks by default, which is too little where ticks are short.
		"maxSessionTimeout=60000",
		"dataDir=" + l.data(),
		fmt.Sprintf("clientPort=%d", l.members[l.id-1].client),
		"clientPortAddress=127.0.0.1",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}
	if len(l.members) > 1 {
		for i, m := range l.members {
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, m.quorum, m.election))
		}
	}
	return append(lines, l.options.config...)
}

// arguments returns the command line after "java": a small heap, and what
// makes the virtual machine start quickly.
func (l *layout) arguments() []string {
	args := []string{
		"-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dzookeeper.extendedTypesEnabled=true",
		"-Dzookeeper.preAllocSize=4096", // in KiB
		"-Dzookeeper.forceSync=" + yesNo(l.options.fsync),
	}
	if l.options.containers > 0 {
		args = append(args, fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", l.options.containers.Milliseconds()))
	}
	for _, p := range l.options.properties {
		args = append(args, "-D"+p)
	}
	args = append(args, l.options.jvm...)
	return append(args, "-cp", l.install.classpath, l.install.main, l.config())
}

func yesNo(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}
