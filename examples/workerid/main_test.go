package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonzk/baton/ensemble/embedded"
	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/internal/proc"
	"github.com/batonzk/baton/internal/testenv"
	"github.com/batonzk/baton/recipes"
)

// The test binary is also the program.
const programVariable = "BATON_TEST_WORKERID"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// A running is the program while it runs.
type running struct {
	t    *testing.T
	base string

	mu  sync.Mutex
	out bytes.Buffer
}

func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *running) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// await waits for the address at which the program serves.
func (r *running) await() {
	r.t.Helper()
	r.eventually("it serves", func() bool {
		found := serving.FindStringSubmatch(r.output())
		if found != nil {
			r.base = "http://" + found[1]
		}
		return found != nil
	})
}

func (r *running) eventually(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain: %s\n%s", what, r.output())
		}
	}
}

// start runs the program in this process. stop ends it as SIGTERM does.
func start(t *testing.T, args ...string) (r *running, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r = &running{t: t}
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, r, r) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if c := <-code; c != 0 {
			t.Errorf("exit code %d\n%s", c, r.output())
		}
	})
	t.Cleanup(stop)
	r.await()
	return r, stop
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Get(r.base + path)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.output())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(body))
}

// id gets an ID, which must be above last.
func (r *running) id(last recipes.ID) recipes.ID {
	r.t.Helper()
	status, body := r.get("/id")
	id, err := recipes.ParseID(body)
	if status != http.StatusOK || err != nil || id <= last {
		r.t.Fatalf("%d %q, %v, after %v\n%s", status, body, err, last, r.output())
	}
	return id
}

func (r *running) health() (h health) {
	r.t.Helper()
	status, body := r.get("/healthz")
	if err := json.Unmarshal([]byte(body), &h); err != nil || (status == http.StatusOK) != (h.Status == "ok") {
		r.t.Fatalf("%d %q, %v", status, body, err)
	}
	return h
}

func (r *running) connected() bool {
	r.t.Helper()
	state := r.health().Connection
	return state == framework.Connected.String() || state == framework.Reconnected.String()
}

func listen(t *testing.T) (*embedded.Server, string) {
	t.Helper()
	srv, err := embedded.Start(embedded.WithTick(100 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return srv, addr.String()
}

func TestService(t *testing.T) {
	r, stop := start(t)
	id := r.id(0)
	status, body := r.get("/ids?n=3")
	var ids []recipes.ID
	if err := json.Unmarshal([]byte(body), &ids); status != http.StatusOK || err != nil || len(ids) != 3 || ids[0] <= id {
		t.Errorf("%d %q, %v", status, body, err)
	}
	for _, n := range []string{"", "0", "-1", "x", "10001"} {
		if status, body := r.get("/ids?n=" + n); status != http.StatusBadRequest {
			t.Errorf("n=%s: %d %q", n, status, body)
		}
	}
	h := r.health()
	if h.Status != "ok" || h.Worker != id.Worker(recipes.DefaultLayout()) || h.Claim != "held" || h.Slot.Generation != 1 ||
		h.Slot.Path != fmt.Sprintf("/ids/example/slots/%d", h.Worker) || h.EndOfLife != "2094-09-07" {
		t.Errorf("%+v", h)
	}
	if reserve, err := time.ParseDuration(h.Reserve); err != nil || reserve <= 0 || reserve > time.Minute {
		t.Errorf("%+v", h)
	}
	stop()
	if !strings.Contains(r.output(), "msg=released") {
		t.Error(r.output())
	}
}

// The servers go away and come back, and have forgotten the session.
func TestServersRestart(t *testing.T) {
	srv, connect := listen(t)
	r, stop := start(t, "-connect", connect, "-session-timeout", "1s", "-window", "30s")
	id := r.id(0)
	was := r.health()
	srv.Refuse(true)
	srv.DropConnections()
	r.eventually("the connection is gone", func() bool { return !r.connected() })
	id = r.id(id) // of what is reserved
	for _, session := range srv.Sessions() {
		if err := srv.ExpireSession(session.ID); err != nil {
			t.Error(err)
		}
	}
	id = r.id(id)
	srv.Refuse(false)
	r.eventually("it has claimed anew", func() bool {
		if status, _ := r.get("/id"); status != http.StatusOK {
			return false
		}
		h := r.health()
		return h.Slot != was.Slot && h.Claim == "held" && (h.Worker != was.Worker || h.Slot.Generation > was.Slot.Generation)
	})
	r.id(id)
	stop()
	if left := srv.Dump(); strings.Contains(left, "ephemeral") {
		t.Errorf("left behind:\n%s", left)
	}
}

func TestServersRestartOnApache(t *testing.T) {
	e := testenv.StartApache(t, 1)
	r, stop := start(t, "-connect", e.Connect(), "-session-timeout", "4s", "-window", "30s")
	id := r.id(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := e.Server(0)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	r.eventually("the connection is gone", func() bool { return !r.connected() })
	id = r.id(id)
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	r.eventually("the connection is back", r.connected)
	r.id(id)
	stop()
}

// A process gets SIGTERM and releases its number.
func TestTerminated(t *testing.T) {
	srv, connect := listen(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t}
	cmd := exec.Command(self, "-connect", connect)
	cmd.Env = append(os.Environ(), programVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = r, r
	ended := make(chan error, 1)
	if err := proc.Start(cmd, nil, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	r.await()
	r.id(0)
	if err := proc.Signal(cmd.Process, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, r.output())
	}
	if left := srv.Dump(); strings.Contains(left, "ephemeral") || !strings.Contains(left, "/ids/example/slots/") {
		t.Errorf("left behind:\n%s", left)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-x"}, {"y"}, {"-window", "soon"}} {
		var errs bytes.Buffer
		if code := run(t.Context(), args, io.Discard, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, %s", args, code, errs.String())
		}
	}
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"-window", "1ms"}, io.Discard, &errs); code != 1 || !strings.Contains(errs.String(), "window of 1ms") {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}
