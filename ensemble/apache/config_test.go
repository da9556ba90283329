package apache // whether fsync is on shows nowhere from outside

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		opt  Option
		want string
	}{
		{WithFsync(false), "-Dzookeeper.forceSync=no"},
		{WithFsync(true), "-Dzookeeper.forceSync=yes"},
		{WithContainerCheckInterval(time.Second), "-Dznode.container.checkIntervalMs=1000"},
		{WithProperty("a.b", "c=d"), "-Da.b=c=d"},
		{WithJVM("-Xmx1g"), "-Xmx1g"},
	} {
		o := defaults()
		c.opt(&o)
		l := layout{id: 1, members: make([]ports, 1), options: o}
		if args := l.arguments(); !slices.Contains(args, c.want) {
			t.Errorf("%q is not among %q", c.want, args)
		}
	}
}

func TestConfigurationOfAnEnsemble(t *testing.T) {
	o := defaults()
	WithTick(2 * time.Second)(&o)
	WithConfig("syncLimit=9")(&o)
	l := layout{id: 2, members: []ports{{1, 2, 3}, {4, 5, 6}}, dir: "/d", options: o}
	text := strings.Join(l.lines(), "\n")
	for _, want := range []string{
		"tickTime=2000\ninitLimit=5\nsyncLimit=2\n", "clientPort=4\n", "dataDir=/d/data\n",
		"\nserver.1=127.0.0.1:2:3\nserver.2=127.0.0.1:5:6\nsyncLimit=9",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
