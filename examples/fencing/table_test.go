package main

import (
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := openDatabase(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newDatabase(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "report.db"))
}

func TestRaise(t *testing.T) {
	db := newDatabase(t)
	const highest = 1<<63 - 1
	for _, step := range []struct {
		resource string
		token    int64
		highest  int64 // after it; 0 for none
		err      error
	}{
		{"a", 5, 5, nil},      // the first
		{"a", 5, 5, nil},      // the same hold
		{"a", 4, 5, errStale}, // an earlier one
		{"a", 9, 9, nil},      // a later one
		{"a", 5, 9, errStale},
		{"b", 4, 4, nil}, // another resource
		{"a", 9, 9, nil},
		{"c", highest, highest, nil},
		{"c", highest - 1, highest, errStale},
	} {
		if err := raise(t.Context(), db, step.resource, step.token); !errors.Is(err, step.err) {
			t.Errorf("%+v: %v", step, err)
		}
		var token int64
		err := db.QueryRow(`SELECT token FROM fence WHERE resource = ?`, step.resource).Scan(&token)
		if err != nil || token != step.highest {
			t.Errorf("%+v: the highest is %d, %v", step, token, err)
		}
	}
	for _, token := range []int64{0, -1} {
		if err := raise(t.Context(), db, "new", token); err == nil || errors.Is(err, errStale) {
			t.Errorf("token %d: %v", token, err)
		}
	}
}

func TestTable(t *testing.T) {
	table := table{newDatabase(t)}
	write := func(token int64, want error, lines map[string]string) {
		t.Helper()
		if err := table.write(t.Context(), token, lines); !errors.Is(err, want) {
			t.Errorf("token %d: %v, want %v", token, err, want)
		}
	}
	write(5, nil, map[string]string{"a": "5", "b": "5"})
	write(7, nil, map[string]string{"a": "7"}) // does not touch b
	write(5, errStale, map[string]string{"b": "stale"})
	write(5, errStale, map[string]string{"new": "stale"})
	write(7, nil, map[string]string{"a": "7 again"})
	want := map[string]string{"a": "7 again", "b": "5"}
	if lines, err := table.read(t.Context(), "report"); err != nil || !maps.Equal(lines, want) {
		t.Errorf("%v, %v, want %v", lines, err, want)
	}
}

// A write that fails after the check leaves neither lines nor its token.
func TestTableWritesAllOrNothing(t *testing.T) {
	table := table{newDatabase(t)}
	if _, err := table.db.Exec(`CREATE TRIGGER bad BEFORE INSERT ON report WHEN NEW.line = 'bad'
		BEGIN SELECT RAISE(ABORT, 'bad line'); END`); err != nil {
		t.Fatal(err)
	}
	if err := table.write(t.Context(), 7, map[string]string{"a": "7", "bad": "7", "c": "7"}); err == nil {
		t.Error("the line was accepted")
	}
	if lines, err := table.read(t.Context(), "report"); err != nil || len(lines) > 0 {
		t.Errorf("%v, %v", lines, err)
	}
	if err := table.write(t.Context(), 5, map[string]string{"a": "5"}); err != nil {
		t.Error(err)
	}
}

// The token and the lines are one commit, up to which nobody else gets past the
// check.
func TestTableWritesInOneCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.db")
	open(t, path)
	impatient, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	commits := 0
	db, err := driver.Open("file:"+path, func(c *sqlite3.Conn) error {
		c.CommitHook(func() bool {
			commits++
			if err := (table{impatient}).write(t.Context(), 6, map[string]string{"a": "6"}); !errors.Is(err, sqlite3.BUSY) {
				t.Errorf("somebody else's write, before the commit: %v", err)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := (table{db}).write(t.Context(), 5, map[string]string{"a": "5", "b": "5"}); err != nil || commits != 1 {
		t.Errorf("%d commits, %v", commits, err)
	}
	if err := (table{impatient}).write(t.Context(), 6, map[string]string{"a": "6"}); err != nil {
		t.Errorf("somebody else's write, after the commit: %v", err)
	}
	if err := (table{db}).write(t.Context(), 5, map[string]string{"b": "stale"}); !errors.Is(err, errStale) || commits != 1 {
		t.Errorf("a stale write: %d commits, %v", commits, err)
	}
}

// Writers with connections of their own, as in several processes. The database
// keeps the history: no line is ever written with a lower token than the one
// before it, nor than the highest at the time.
func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.db")
	db := open(t, path)
	if _, err := db.Exec(`
		CREATE TABLE history (n INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER, highest INTEGER);
		CREATE TRIGGER inserted AFTER INSERT ON report BEGIN
			INSERT INTO history (token, highest) SELECT NEW.body, token FROM fence WHERE resource = 'report'; END;
		CREATE TRIGGER updated AFTER UPDATE ON report BEGIN
			INSERT INTO history (token, highest) SELECT NEW.body, token FROM fence WHERE resource = 'report'; END;`); err != nil {
		t.Fatal(err)
	}
	const writers, writes = 4, 100
	var done sync.WaitGroup
	for w := range writers {
		own := table{open(t, path)}
		done.Go(func() {
			for i := range writes {
				token := int64(i + 1 + rand.IntN(5))
				body := strconv.FormatInt(token, 10)
				err := own.write(t.Context(), token, map[string]string{"a": body, "b": body})
				if err != nil && !errors.Is(err, errStale) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	done.Wait()
	checkHistory(t, db)
}

func checkHistory(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT token, highest FROM history ORDER BY n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var last, n int64
	for ; rows.Next(); n++ {
		var token, highest int64
		if err := rows.Scan(&token, &highest); err != nil {
			t.Fatal(err)
		}
		if token < last || token != highest {
			t.Errorf("a line was written with token %d after one with %d, when the highest was %d", token, last, highest)
		}
		last = token
	}
	if rows.Err() != nil || n == 0 {
		t.Errorf("%d lines in the history, %v", n, rows.Err())
	}
}
