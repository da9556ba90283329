package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// memory keeps pages, in the order in which they came.
type memory struct {
	fail    error
	slow    string          // the page that is not written before
	proceed <-chan struct{} // is closed
	names   []string
	pages   []string
}

func (m *memory) put(name string, body []byte) error {
	if m.slow == string(body) {
		<-m.proceed
	}
	if m.fail != nil {
		return m.fail
	}
	m.names, m.pages = append(m.names, name), append(m.pages, string(body))
	return nil
}

func (m *memory) get(name string) ([]byte, error) {
	for i, n := range slices.Backward(m.names) {
		if n == name {
			return []byte(m.pages[i]), nil
		}
	}
	return nil, fs.ErrNotExist
}

// put sends a page past the network, and returns the status.
func put(ctx context.Context, h http.Handler, name, body string, tokens ...string) int {
	return send(ctx, h, name, strings.NewReader(body), tokens...)
}

func send(ctx context.Context, h http.Handler, name string, body io.Reader, tokens ...string) int {
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/pages/"+name, body)
	for _, token := range tokens {
		r.Header.Add(tokenHeader, token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestGate(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := newGate(newDatabase(t), folder{root}).handler()
	for _, step := range []struct {
		name, body string
		tokens     []string
		status     int
		page       string // after it
	}{
		{"a", "none", nil, http.StatusPreconditionRequired, ""},
		{"a", "bad", []string{"0x5"}, http.StatusBadRequest, ""},
		{"a", "bad", []string{"0"}, http.StatusBadRequest, ""},
		{"a", "bad", []string{"-1"}, http.StatusBadRequest, ""},
		{"a", "bad", []string{""}, http.StatusBadRequest, ""},
		{"a", "bad", []string{"9223372036854775808"}, http.StatusBadRequest, ""},
		{"a", "two", []string{"5", "6"}, http.StatusBadRequest, ""},
		{"a", "first", []string{"5"}, http.StatusNoContent, "first"},
		{"a", "equal", []string{"5"}, http.StatusNoContent, "equal"},
		{"a", "lower", []string{"4"}, http.StatusPreconditionFailed, "equal"},
		{"a", "higher", []string{"6"}, http.StatusNoContent, "higher"},
		{"a", "lower", []string{"5"}, http.StatusPreconditionFailed, "higher"},
		{"b", "another", []string{"1"}, http.StatusNoContent, "another"},
		{"a", strings.Repeat("x", maxPage+1), []string{"7"}, http.StatusRequestEntityTooLarge, "higher"},
		{"a", "still", []string{"6"}, http.StatusNoContent, "still"},
	} {
		if status := put(t.Context(), h, step.name, step.body, step.tokens...); status != step.status {
			t.Errorf("%.10s with %q: status %d, want %d", step.body, step.tokens, status, step.status)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pages/"+step.name, nil))
		if step.page == "" && w.Code == http.StatusNotFound {
			continue
		}
		if w.Code != http.StatusOK || w.Body.String() != step.page {
			t.Errorf("after %.10s with %q: %d %q, want %q", step.body, step.tokens, w.Code, w.Body, step.page)
		}
	}
}

// The tokens outlive the gate, and so does one whose write failed.
func TestGateRemembers(t *testing.T) {
	db := newDatabase(t)
	m := &memory{fail: errors.New("disk full")}
	if status := put(t.Context(), newGate(db, m).handler(), "a", "7", "7"); status != http.StatusInternalServerError {
		t.Errorf("status %d", status)
	}
	m.fail = nil
	again := newGate(db, m).handler()
	if status := put(t.Context(), again, "a", "6", "6"); status != http.StatusPreconditionFailed {
		t.Errorf("a lower token: status %d", status)
	}
	if status := put(t.Context(), again, "a", "7", "7"); status != http.StatusNoContent {
		t.Errorf("the same token: status %d", status)
	}
}

// Nobody is let in between the check of a token and the write.
func TestPutsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		m := &memory{slow: "first", proceed: proceed}
		h := newGate(newDatabase(t), m).handler()
		first, second, gone := make(chan int, 1), make(chan int, 1), make(chan int, 1)
		go func() { first <- put(t.Context(), h, "a", "first", "5") }()
		synctest.Wait() // its token is checked
		go func() { second <- put(t.Context(), h, "a", "second", "6") }()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { gone <- put(ctx, h, "a", "gone", "7") }()
		synctest.Wait()
		cancel() // this sender does not wait to the end
		if status := <-gone; status != http.StatusInternalServerError {
			t.Errorf("the one that went away: status %d", status)
		}
		close(proceed)
		if a, b := <-first, <-second; a != http.StatusNoContent || b != http.StatusNoContent {
			t.Errorf("status %d and %d", a, b)
		}
		if want := []string{"first", "second"}; !slices.Equal(m.pages, want) {
			t.Errorf("the page was written by %q, want %q", m.pages, want)
		}
	})
}

// A holder that is paused while it sends keeps nobody out, and is stale when it
// goes on.
func TestPausedSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which finds a deadlock
		h := newGate(newDatabase(t), &memory{}).handler()
		body, sender := io.Pipe()
		late := make(chan int, 1)
		go func() { late <- send(t.Context(), h, "a", body, "5") }()
		io.WriteString(sender, "the first half") // returns when it has been read
		if status := put(t.Context(), h, "a", "next", "6"); status != http.StatusNoContent {
			t.Errorf("the next holder: status %d", status)
		}
		sender.Close()
		if status := <-late; status != http.StatusPreconditionFailed {
			t.Errorf("the paused one: status %d", status)
		}
	})
}

func TestPutPage(t *testing.T) {
	m := &memory{}
	server := httptest.NewServer(newGate(newDatabase(t), m).handler())
	defer server.Close()
	client := server.Client()
	url := server.URL + "/pages/a"
	if err := putPage(t.Context(), client, url, 6, "first"); err != nil {
		t.Error(err)
	}
	if err := putPage(t.Context(), client, url, 5, "stale"); !errors.Is(err, errStale) {
		t.Error(err)
	}
	if err := putPage(t.Context(), client, url, 0, "no token"); err == nil || errors.Is(err, errStale) {
		t.Error(err)
	}
	if got := fmt.Sprint(m.pages); got != "[first]" {
		t.Error(got)
	}
}
