//go:build linux

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batonzk/baton/ensemble"
	"github.com/batonzk/baton/framework"
)

// peerVariable makes a process that calls Main a peer.
const peerVariable = "BATON_INTEROP_PEER"

// StartGo starts Baton in a process of its own: this program once more, which
// must call [Main] before anything else, as a test does in TestMain. env is
// added to its environment. The caller must Close it.
func StartGo(ctx context.Context, env ...string) (*Peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	// Under the race detector a process sleeps for a second before it exits,
	// unless told otherwise.
	cmd.Env = append(append(os.Environ(), peerVariable+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	return start(ctx, "go", cmd)
}

// Main does not return if the process was started by StartGo.
func Main() {
	if os.Getenv(peerVariable) == "" {
		return
	}
	s := &goPeer{out: os.Stdout, locks: make(map[string]*goLock)}
	if err := s.serve(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A goPeer is the other end of a Peer that was started by StartGo.
type goPeer struct {
	write sync.Mutex
	out   io.Writer

	mu     sync.Mutex
	client *framework.Client
	locks  map[string]*goLock
}

var errUsage = errors.New("no such verb or lock, or too few arguments")

// serve carries out requests until in ends. Each has a goroutine, but for look,
// which is to be the first thing that is done once its line was read.
func (s *goPeer) serve(in io.Reader) error {
	s.say("*", "ready", "go")
	lines := bufio.NewScanner(in)
	var work sync.WaitGroup
	for lines.Scan() {
		tag, verb, args, err := parseRequest(lines.Text())
		if err != nil {
			return err
		}
		if verb == "look" {
			s.reply(tag, verb, args)
			continue
		}
		work.Go(func() { s.reply(tag, verb, args) })
	}
	err := errors.Join(lines.Err(), s.disconnect())
	work.Wait()
	return err
}

func parseRequest(line string) (tag, verb string, args []string, err error) {
	words := strings.Split(line, " ")
	if len(words) < 2 {
		return "", "", nil, fmt.Errorf("not understood: %q", line)
	}
	for i := range words {
		if words[i], err = url.QueryUnescape(words[i]); err != nil {
			return "", "", nil, fmt.Errorf("not understood: %q", line)
		}
	}
	return words[0], words[1], words[2:], nil
}

func (s *goPeer) say(tag, kind string, words ...string) {
	line := fmt.Appendf(nil, "%s %s %d", tag, kind, Monotonic())
	for _, w := range words {
		line = append(line, ' ')
		line = append(line, url.QueryEscape(w)...)
	}
	s.write.Lock()
	defer s.write.Unlock()
	_, _ = s.out.Write(append(line, '\n')) // there is nobody else to tell
}

func (s *goPeer) reply(tag, verb string, args []string) {
	words, err := s.run(verb, args)
	if err != nil {
		s.say(tag, "err", kindOf(err), err.Error())
		return
	}
	s.say(tag, "ok", words...)
}

// run carries out one request.
func (s *goPeer) run(verb string, args []string) ([]string, error) {
	switch {
	case verb == "connect" && len(args) == 2:
		return s.connect(args[0], args[1])
	case verb == "disconnect":
		return nil, s.disconnect()
	case families[verb] != nil && len(args) >= 2:
		return nil, s.newLocks(verb, args[0], args[1], args[2:])
	case verb == "contend" && len(args) >= 3:
		return nil, s.contend(args[0], args[1], args[2], args[3:]...)
	case verb == "revoke" && len(args) > 0:
		return nil, s.revoke(args[0], args[1:])
	case len(args) == 0:
		return nil, fmt.Errorf("%w: %s", errUsage, verb)
	}
	s.mu.Lock()
	l := s.locks[args[0]]
	s.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("%w: %s %q", errUsage, verb, args)
	}
	return l.run(verb, args[1:])
}

func (s *goPeer) connect(servers, timeout string) ([]string, error) {
	where, err := ensemble.NewFixed(servers)
	if err != nil {
		return nil, err
	}
	ms, err := milliseconds(timeout)
	if err != nil {
		return nil, err
	}
	c, err := framework.New(where, framework.WithSessionTimeout(ms))
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.WaitConnected(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = c
	session := c.Session()
	if session == nil {
		return nil, framework.ErrSessionLost
	}
	return []string{
		strconv.FormatInt(session.ID(), 10),
		strconv.FormatInt(session.Timeout().Milliseconds(), 10),
	}, nil
}

func (s *goPeer) disconnect() error {
	s.mu.Lock()
	c := s.client
	s.client = nil
	clear(s.locks)
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

func milliseconds(s string) (time.Duration, error) {
	ms, err := strconv.Atoi(s)
	return time.Duration(ms) * time.Millisecond, err
}
