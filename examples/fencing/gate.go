package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
)

const (
	tokenHeader = "Fencing-Token" // a decimal number
	maxPage     = 1 << 20
)

// A gate is an HTTP handler in front of pages that cannot check tokens
// themselves. It is the only way to them, and there is one gate for them.
//
//	GET  /pages/{name}
//	PUT  /pages/{name}   Fencing-Token: the lease's token
//
// A PUT with a token lower than one it has seen for the page is answered 412
// Precondition Failed, one without a token 428 Precondition Required.
type gate struct {
	db    *sql.DB // remembers the tokens, also when the gate is started again
	pages pages

	// writing has room for the one that writes. It is taken from the check of a
	// token to the end of the write: nobody must be overtaken between them.
	writing chan struct{}
}

func newGate(db *sql.DB, p pages) *gate {
	return &gate{db: db, pages: p, writing: make(chan struct{}, 1)}
}

// pages keeps what it is told.
type pages interface {
	put(name string, body []byte) error
	get(name string) ([]byte, error) // an error that wraps fs.ErrNotExist if there is none
}

func (g *gate) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages/{name}", g.get)
	mux.HandleFunc("PUT /pages/{name}", g.put)
	return mux
}

func (g *gate) get(w http.ResponseWriter, r *http.Request) {
	body, err := g.pages.get(r.PathValue("name"))
	if err != nil {
		refuse(w, err)
		return
	}
	w.Write(body)
}

func (g *gate) put(w http.ResponseWriter, r *http.Request) {
	token, err := tokenOf(r)
	if err != nil {
		refuse(w, err)
		return
	}
	// All of the body first: a sender that is paused in the middle of it must
	// not keep others out.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPage))
	if err != nil {
		refuse(w, err)
		return
	}
	if err := g.write(r.Context(), r.PathValue("name"), token, body); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// write puts the page if the token is not stale. The token is remembered
// before: if the gate ends between the two, the page is not written, and no
// lower token gets in after the restart.
func (g *gate) write(ctx context.Context, name string, token int64, body []byte) error {
	select {
	case g.writing <- struct{}{}:
		defer func() { <-g.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := raise(ctx, g.db, "pages/"+name, token); err != nil {
		return err
	}
	return g.pages.put(name, body)
}

var (
	errNoToken  = errors.New("the header " + tokenHeader + " is missing")
	errBadToken = errors.New("the header " + tokenHeader + " is not one positive number")
)

func tokenOf(r *http.Request) (int64, error) {
	values := r.Header.Values(tokenHeader)
	if len(values) == 0 {
		return 0, errNoToken
	}
	token, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || token <= 0 || len(values) > 1 {
		return 0, errBadToken
	}
	return token, nil
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errStale):
		status = http.StatusPreconditionFailed
	case errors.Is(err, errNoToken):
		status = http.StatusPreconditionRequired
	case errors.Is(err, errBadToken):
		status = http.StatusBadRequest
	case errors.As(err, &tooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

// A folder keeps pages as files.
type folder struct{ root *os.Root }

func (f folder) get(name string) ([]byte, error) { return f.root.ReadFile(name) }

// put replaces the file as a whole. Only one put may run at a time.
func (f folder) put(name string, body []byte) error {
	const next = ".next"
	if err := f.root.WriteFile(next, body, 0o600); err != nil {
		return err
	}
	return f.root.Rename(next, name)
}

// putPage is the client's side of the gate. It fails with errStale if the gate
// says that the token is.
func putPage(ctx context.Context, client *http.Client, url string, token int64, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set(tokenHeader, strconv.FormatInt(token, 10))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %#x, %s", errStale, token, response.Status)
	case response.StatusCode != http.StatusNoContent:
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
