//go:build linux

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batonzk/baton/internal/proc"
)

// ErrGone is wrapped by the errors of a peer whose process has ended.
var ErrGone = errors.New("interop: the peer has ended")

// A Message is an answer or an event.
type Message struct {
	Kind  string        // "ok" or "err" for an answer, else the event's
	At    time.Duration // when it was made, see [Monotonic]
	Words []string
}

// Word returns word i, "" if there is none.
func (m Message) Word(i int) string {
	if i >= len(m.Words) {
		return ""
	}
	return m.Words[i]
}

// An Error is a peer's answer that it could not do what it was asked to.
type Error struct {
	Peer, Request string
	Kind, Text    string
	At            time.Duration
}

// Error names the peer and the request.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %s: %s", e.Peer, e.Request, e.Kind, e.Text)
}

// Is makes errors.Is compare kinds, with an Error that has nothing else.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && *t == Error{Kind: e.Kind}
}

// A Peer is another process. Its methods are safe for concurrent use.
type Peer struct {
	name   string
	cmd    *exec.Cmd
	stderr tail
	ended  chan struct{} // closed when the process has been waited for
	err    error         // of the process, after ended

	write sync.Mutex // guards stdin
	stdin io.WriteCloser

	mu     sync.Mutex
	tag    int
	calls  map[string]*Call
	events []Message
	news   chan struct{} // closed and replaced at each event
}

// start runs cmd as a peer and waits until it is ready. The error has the end
// of what the process wrote to its standard error.
func start(ctx context.Context, name string, cmd *exec.Cmd) (*Peer, error) {
	p := &Peer{name: name, cmd: cmd, ended: make(chan struct{}), calls: make(map[string]*Call), news: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, cmd.Stderr = stdin, &p.stderr
	err = proc.Start(cmd, func() { p.read(stdout) }, p.end)
	if err != nil {
		return nil, fmt.Errorf("interop: starting %s: %w", name, err)
	}
	if _, err := p.Event(ctx, "ready"); err != nil {
		_ = p.Kill()
		return nil, fmt.Errorf("interop: starting %s: %w", name, p.explain(err))
	}
	return p, nil
}

// read takes what the peer says until it has ended.
func (p *Peer) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := p.receive(lines.Text()); err != nil {
			fmt.Fprintf(&p.stderr, "\n%v", err)
			_ = proc.Signal(p.cmd.Process, syscall.SIGKILL)
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // of a line that is too long
}

func (p *Peer) receive(line string) error {
	words := strings.Split(line, " ")
	for i, w := range words {
		var err error
		if words[i], err = url.QueryUnescape(w); err != nil {
			return fmt.Errorf("interop: not understood: %q", line)
		}
	}
	if len(words) < 3 {
		return fmt.Errorf("interop: not understood: %q", line)
	}
	at, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return fmt.Errorf("interop: not understood: %q", line)
	}
	m := Message{Kind: words[1], At: time.Duration(at), Words: words[3:]}
	p.mu.Lock()
	defer p.mu.Unlock()
	if words[0] == "*" {
		p.events = append(p.events, m)
		close(p.news)
		p.news = make(chan struct{})
		return nil
	}
	c := p.calls[words[0]]
	if c == nil {
		return fmt.Errorf("interop: an answer to nothing: %q", line)
	}
	delete(p.calls, words[0])
	c.answer(m)
	return nil
}

// end is called once the process is gone and all it said has been read.
func (p *Peer) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	close(p.ended)
}

// explain adds to err what is known of the peer's end.
func (p *Peer) explain(err error) error {
	if text := p.stderr.String(); text != "" {
		return fmt.Errorf("%w; its last words:\n%s", err, text)
	}
	return err
}

func (p *Peer) gone() error {
	state := "exit status 0"
	if p.err != nil {
		state = p.err.Error()
	}
	return p.explain(fmt.Errorf("%w: %s: %s", ErrGone, p.name, state))
}

// A Call is a request that is under way.
type Call struct {
	peer    *Peer
	request string
	done    chan struct{}
	reply   Message
}

func (c *Call) answer(m Message) {
	c.reply = m
	close(c.done)
}

// Start sends a request. It blocks no longer than it takes to write a line; a
// peer that is stopped or has ended does not matter before [Call.Wait].
func (p *Peer) Start(verb string, args ...string) *Call {
	words := append([]string{verb}, args...)
	c := &Call{peer: p, request: strings.Join(words, " "), done: make(chan struct{})}
	for i, w := range words {
		words[i] = url.QueryEscape(w)
	}
	p.mu.Lock()
	p.tag++
	tag := strconv.Itoa(p.tag)
	p.calls[tag] = c
	p.mu.Unlock()

	p.write.Lock()
	defer p.write.Unlock()
	_, _ = fmt.Fprintln(p.stdin, tag, strings.Join(words, " ")) // Wait finds out
	return c
}

// Wait returns the answer. The error is an [*Error] if the peer says so, wraps
// [ErrGone] if it has ended, or is ctx's.
func (c *Call) Wait(ctx context.Context) (Message, error) {
	select {
	case <-c.done:
	case <-c.peer.ended:
		select {
		case <-c.done:
		default:
			return Message{}, fmt.Errorf("%s: %w", c.request, c.peer.gone())
		}
	case <-ctx.Done():
		return Message{}, c.peer.explain(fmt.Errorf("%s: %s: %w", c.peer.name, c.request, ctx.Err()))
	}
	if c.reply.Kind != "ok" {
		return c.reply, &Error{
			Peer: c.peer.name, Request: c.request,
			Kind: c.reply.Word(0), Text: c.reply.Word(1), At: c.reply.At,
		}
	}
	return c.reply, nil
}

// Done returns a channel that is closed when there is an answer.
func (c *Call) Done() <-chan struct{} { return c.done }

// Do sends a request and waits for the answer.
func (p *Peer) Do(ctx context.Context, verb string, args ...string) (Message, error) {
	return p.Start(verb, args...).Wait(ctx)
}

// Event waits for an event of a kind whose first words are the given ones, and
// takes it.
func (p *Peer) Event(ctx context.Context, kind string, words ...string) (Message, error) {
	ended := false
	for {
		p.mu.Lock()
		for i, m := range p.events {
			if m.Kind == kind && hasPrefix(m.Words, words) {
				p.events = append(p.events[:i:i], p.events[i+1:]...)
				p.mu.Unlock()
				return m, nil
			}
		}
		news := p.news
		p.mu.Unlock()
		if ended {
			return Message{}, p.gone()
		}
		select {
		case <-news:
		case <-p.ended:
			ended = true // once more: it may have been the last word
		case <-ctx.Done():
			return Message{}, fmt.Errorf("%s: waiting for %q %q: %w", p.name, kind, words, ctx.Err())
		}
	}
}

func hasPrefix(words, prefix []string) bool {
	for i, w := range prefix {
		if i >= len(words) || words[i] != w {
			return false
		}
	}
	return true
}

// Pause stops the process (SIGSTOP) and returns when it stands still.
func (p *Peer) Pause(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.WaitStopped(ctx)
}

// WaitStopped returns when the process stands still, by whatever stopped it.
func (p *Peer) WaitStopped(ctx context.Context) error { return proc.WaitStopped(ctx, p.cmd.Process) }

// Resume lets a stopped process go on (SIGCONT).
func (p *Peer) Resume() error { return proc.Signal(p.cmd.Process, syscall.SIGCONT) }

// String returns what the peer is, "go", "java" or "kazoo".
func (p *Peer) String() string { return p.name }

// PID returns the process's ID.
func (p *Peer) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once (SIGKILL), and waits until it is gone. Its
// session is not closed.
func (p *Peer) Kill() error {
	err := proc.Signal(p.cmd.Process, syscall.SIGKILL)
	<-p.ended
	p.closeStdin()
	return err
}

// closeTimeout is how long a peer has to close its session and end.
const closeTimeout = 15 * time.Second

// Close has the process close its session and end, and waits for that. One
// that does not end within 15 s is killed, which is an error. So is an exit
// status other than 0, unless Kill was called before.
func (p *Peer) Close() error {
	select {
	case <-p.ended:
		p.closeStdin()
		var exit *exec.ExitError
		if errors.As(p.err, &exit) && exit.Exited() {
			return p.gone()
		}
		return nil
	default:
	}
	p.closeStdin()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			return p.gone()
		}
		return nil
	case <-t.C:
		_ = p.Kill()
		return fmt.Errorf("interop: %s did not end within %v: %w", p.name, closeTimeout, p.gone())
	}
}

func (p *Peer) closeStdin() {
	p.write.Lock()
	defer p.write.Unlock()
	_ = p.stdin.Close()
}
