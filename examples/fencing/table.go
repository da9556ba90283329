package main

import (
	"context"
	"database/sql"
)

// A table is the report in a database. What protects it is a row of the table
// fence and not a column of its own: a holder that was overtaken must not write
// a line either that the next one has not touched.
type table struct{ db *sql.DB }

// write stores lines of the report, all or none. It fails with errStale if
// somebody has written with a higher token. Whoever raises the token keeps the
// others waiting until the commit, so that no two writers are past the check at
// the same time.
func (t table) write(ctx context.Context, token int64, lines map[string]string) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if err := raise(ctx, tx, "report", token); err != nil {
		return err
	}
	if err := upsert(ctx, tx, "report", lines); err != nil {
		return err
	}
	return tx.Commit()
}

// writeUnchecked stores the lines in a table that compares no tokens, to show
// what happens then.
func (t table) writeUnchecked(ctx context.Context, lines map[string]string) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := upsert(ctx, tx, "unchecked_report", lines); err != nil {
		return err
	}
	return tx.Commit()
}

func upsert(ctx context.Context, tx *sql.Tx, name string, lines map[string]string) error {
	for line, body := range lines {
		if _, err := tx.ExecContext(ctx, `INSERT INTO `+name+` (line, body) VALUES (?, ?)
			ON CONFLICT (line) DO UPDATE SET body = excluded.body`, line, body); err != nil {
			return err
		}
	}
	return nil
}

// read returns the lines of one of the tables.
func (t table) read(ctx context.Context, name string) (map[string]string, error) {
	rows, err := t.db.QueryContext(ctx, `SELECT line, body FROM `+name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	lines := make(map[string]string)
	for rows.Next() {
		var line, body string
		if err := rows.Scan(&line, &body); err != nil {
			return nil, err
		}
		lines[line] = body
	}
	return lines, rows.Err()
}
