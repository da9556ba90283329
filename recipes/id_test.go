package recipes_test

import (
	"bytes"
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/recipes"
)

var _ sql.Scanner = (*recipes.ID)(nil)

func anyID(t *rapid.T, label string) recipes.ID {
	return recipes.ID(rapid.Int64Range(0, math.MaxInt64).Draw(t, label))
}

func TestIDParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout(t)
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		tick := rapid.Int64Range(0, 1<<l.TimeBits-1).Draw(t, "tick")
		worker := rapid.Int64Range(0, 1<<l.WorkerBits-1).Draw(t, "number")
		sequence := rapid.Int64Range(0, 1<<l.SequenceBits-1).Draw(t, "step")
		id := recipes.ID(tick<<(l.WorkerBits+l.SequenceBits) | worker<<l.SequenceBits | sequence)
		if id < 0 {
			t.Fatalf("%d is negative", id)
		}
		if got, want := id.Time(l), l.Epoch.UnixMilli()+tick*l.Unit.Milliseconds(); got.UnixMilli() != want {
			t.Errorf("time %v, want %v", got, time.UnixMilli(want))
		}
		if !id.Time(l).Before(l.EndOfLife()) {
			t.Errorf("time %v is not before the end, %v", id.Time(l), l.EndOfLife())
		}
		if got := id.Worker(l); int64(got) != worker {
			t.Errorf("worker %d, want %d", got, worker)
		}
		if got := id.Sequence(l); got != sequence {
			t.Errorf("sequence %d, want %d", got, sequence)
		}
	})
}

func TestIDTextSortsAndRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyID(t, "a"), anyID(t, "b")
		if got, want := strings.Compare(a.String(), b.String()), cmp.Compare(a, b); got != want {
			t.Errorf("%s and %s compare as %d, the numbers as %d", a, b, got, want)
		}
		for _, text := range []string{
			a.String(), strings.ToLower(a.String()),
			strings.NewReplacer("0", "O", "1", "l").Replace(a.String()),
			strings.NewReplacer("0", "o", "1", "I").Replace(a.String()),
		} {
			if got, err := recipes.ParseID(text); err != nil || got != a {
				t.Errorf("ParseID(%q) = %v, %v, want %v", text, got, err, a)
			}
		}
		value, err := a.Value()
		if err != nil {
			t.Fatal(err)
		}
		digits := []byte(json.Number(driverInt(t, value)))
		for _, src := range []any{value, digits, string(digits)} {
			var got recipes.ID
			if err := got.Scan(src); err != nil || got != a {
				t.Errorf("Scan(%v) = %v, %v, want %v", src, got, err, a)
			}
		}
	})
}

func driverInt(t *rapid.T, value driver.Value) string {
	if _, ok := value.(int64); !ok {
		t.Fatalf("a database gets a %T", value)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestIDInJSON(t *testing.T) {
	t.Parallel()
	type record struct {
		ID   recipes.ID
		Tags map[recipes.ID]string
	}
	in := record{ID: math.MaxInt64, Tags: map[recipes.ID]string{1: "one"}}
	out, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"ID":"7ZZZZZZZZZZZZ","Tags":{"0000000000001":"one"}}`; string(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
	var back record
	if err := json.Unmarshal(out, &back); err != nil || back.ID != in.ID || back.Tags[1] != "one" {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"ID":7}`), &back); err == nil {
		t.Error("a number was taken for an ID")
	}
}

func TestIDRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "1", "00000000000001", "000000000000U", "000000000000-", "00000000000 1",
		"8000000000000", "ZZZZZZZZZZZZZ", "00000000000é", "7ZZZZZZZZZZZZ\x00",
	} {
		if id, err := recipes.ParseID(text); err == nil {
			t.Errorf("ParseID(%q) = %d", text, id)
		}
	}
	id := recipes.ID(7)
	for _, src := range []any{nil, 1.5, true, int64(-1), "x", []byte("-5"), "0000000000ABC", "9223372036854775808"} {
		if err := id.Scan(src); err == nil {
			t.Errorf("Scan(%v) = %d", src, id)
		}
	}
	if id != 7 {
		t.Errorf("a failed Scan left %d", id)
	}
	if _, err := recipes.ID(-1).Value(); err == nil {
		t.Error("a negative number went into a database")
	}
	if _, err := json.Marshal(recipes.ID(-1)); err == nil {
		t.Error("a negative number went into JSON")
	}
}

func TestIDInWords(t *testing.T) {
	t.Parallel()
	l := recipes.DefaultLayout()
	id := recipes.ID(1000<<22 | 17<<12 | 5)
	if got, want := l.Describe(id), id.String()+": 2025-01-01T00:00:01Z, worker 17, sequence 5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "id", id)
	if !strings.Contains(log.String(), "id="+id.String()) {
		t.Errorf("logged as %q", log.String())
	}
}

// FuzzParseID: what is accepted is an ID that reads the same again.
func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"0000000000000", "7ZZZZZZZZZZZZ", "OoIiLl0000000", "8000000000000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := recipes.ParseID(text)
		if err != nil {
			return
		}
		again, err := recipes.ParseID(id.String())
		if id < 0 || err != nil || again != id || len(id.String()) != len(text) {
			t.Errorf("%q is %d, which is %s, which is %d, %v", text, id, id, again, err)
		}
	})
}
