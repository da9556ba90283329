package apache

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Option changes how [Start] sets up the servers.
type Option func(*options)

type options struct {
	tick       time.Duration
	fsync      bool
	containers time.Duration // 0: the server's default
	config     []string
	properties []string // name=value
	jvm        []string
	logger     *slog.Logger
}

func defaults() options {
	return options{tick: 100 * time.Millisecond, logger: slog.New(slog.DiscardHandler)}
}

// WithTick sets the server's unit of time, 100 ms by default, in whole
// milliseconds. The shortest session timeout is two ticks, and sessions expire
// on multiples of a tick.
func WithTick(tick time.Duration) Option {
	return func(o *options) { o.tick = tick }
}

// WithFsync makes the servers force every transaction to the disk, or not. It
// is off by default; a benchmark that is to say something about production
// needs it on.
func WithFsync(on bool) Option {
	return func(o *options) { o.fsync = on }
}

// WithContainerCheckInterval sets how often empty containers and expired TTL
// nodes are looked for, in whole milliseconds; one minute by default.
func WithContainerCheckInterval(interval time.Duration) Option {
	return func(o *options) { o.containers = interval }
}

// WithConfig adds lines to the configuration file, such as
// "globalOutstandingLimit=10". They override lines of the same name.
func WithConfig(lines ...string) Option {
	return func(o *options) { o.config = append(o.config, lines...) }
}

// WithProperty adds a Java system property, such as "jute.maxbuffer". It
// overrides one of the same name.
func WithProperty(name, value string) Option {
	return func(o *options) { o.properties = append(o.properties, name+"="+value) }
}

// WithJVM adds arguments for the Java virtual machine. They override the defaults,
// which are for a quick start and little memory: a benchmark wants
// "-XX:TieredStopAtLevel=4" and more than "-Xmx128m".
func WithJVM(args ...string) Option {
	return func(o *options) { o.jvm = append(o.jvm, args...) }
}

// WithLogger sets where starts, stops and signals are logged, by default
// nowhere. What the servers log themselves stays in their folder, its end in
// the errors of [Start].
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) { o.logger = logger }
}

func (o *options) validate(n int) error {
	switch {
	case n < 1 || n > 255:
		return fmt.Errorf("%w: number of servers %d is not from 1 to 255", ErrOption, n)
	case o.tick < time.Millisecond || o.tick%time.Millisecond != 0:
		return fmt.Errorf("%w: tick %v is not a positive number of milliseconds", ErrOption, o.tick)
	case o.containers < 0 || o.containers%time.Millisecond != 0:
		return fmt.Errorf("%w: container check interval %v is not a positive number of milliseconds", ErrOption, o.containers)
	case o.logger == nil:
		return fmt.Errorf("%w: the logger is nil", ErrOption)
	}
	for _, line := range o.config {
		if !strings.Contains(line, "=") || strings.ContainsAny(line, "\r\n") {
			return fmt.Errorf("%w: configuration line %q is not of the form name=value", ErrOption, line)
		}
	}
	for _, p := range o.properties {
		if strings.HasPrefix(p, "=") {
			return fmt.Errorf("%w: system property %q has no name", ErrOption, p)
		}
	}
	return nil
}
