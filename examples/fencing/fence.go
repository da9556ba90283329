package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "github.com/ncruces/go-sqlite3/driver" // SQLite without cgo
)

// errStale is a resource's answer to a token that is lower than one it has
// seen: a later holder of the lock was here.
var errStale = errors.New("stale token")

const schema = `
CREATE TABLE IF NOT EXISTS fence (
	resource TEXT PRIMARY KEY,
	token    INTEGER NOT NULL -- the highest that was seen
);
CREATE TABLE IF NOT EXISTS report (line TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS unchecked_report (line TEXT PRIMARY KEY, body TEXT NOT NULL);`

// openDatabase opens the database file, which several processes may use at
// once, and makes what is missing in it.
func openDatabase(ctx context.Context, path string) (*sql.DB, error) {
	name := url.URL{Scheme: "file", OmitHost: true, Path: path}
	db, err := sql.Open("sqlite3", name.String())
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// raiseToken stores a token that nobody has yet outdone: the first, a higher
// one, or the same again. To compare and to store is one statement, so that
// nobody comes between. It changes no row if a higher token is there.
const raiseToken = `
INSERT INTO fence (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token`

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// raise remembers a token as the highest that a resource has seen, or fails
// with errStale.
func raise(ctx context.Context, db execer, resource string, token int64) error {
	if token <= 0 {
		return fmt.Errorf("%d is not a token", token) // one that was forgotten must not be the first
	}
	result, err := db.ExecContext(ctx, raiseToken, resource, token)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return fmt.Errorf("%w: %#x", errStale, token)
	}
	return err
}
