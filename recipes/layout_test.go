package recipes_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func TestPresetLayouts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		layout  recipes.Layout
		bits    int
		workers int
		end     string
		text    string
	}{
		"default": {
			recipes.DefaultLayout(), 63, 1024, "2094-09-07T15:47:35.552Z",
			"1·41·10·12 of 1ms since 2025-01-01T00:00:00Z",
		},
		"JavaScript": {
			recipes.JavaScriptLayout(), 53, 256, "2112-02-09T13:44:29.44Z",
			"11·38·8·7 of 10ms since 2025-01-01T00:00:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := tc.layout
			if err := l.Validate(); err != nil {
				t.Error(err)
			}
			if bits := l.TimeBits + l.WorkerBits + l.SequenceBits; bits != tc.bits {
				t.Errorf("%d bits, want %d", bits, tc.bits)
			}
			if l.Workers() != tc.workers {
				t.Errorf("%d workers, want %d", l.Workers(), tc.workers)
			}
			if end := l.EndOfLife().Format(time.RFC3339Nano); end != tc.end {
				t.Errorf("ends %s, want %s", end, tc.end)
			}
			if l.String() != tc.text {
				t.Errorf("%q, want %q", l, tc.text)
			}
		})
	}
}

func TestLayoutValidation(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(l *recipes.Layout){
		"0 bits of time":                               func(l *recipes.Layout) { l.TimeBits = 0 },
		"64 bits of time":                              func(l *recipes.Layout) { l.TimeBits = 64 },
		"-1 bits of worker":                            func(l *recipes.Layout) { l.WorkerBits = -1 },
		"32 bits of worker":                            func(l *recipes.Layout) { l.WorkerBits = 32 },
		"-2 bits of sequence":                          func(l *recipes.Layout) { l.SequenceBits = -2 },
		"42+10+12 bits are more than 63":               func(l *recipes.Layout) { l.TimeBits = 42 },
		"a unit of 0s":                                 func(l *recipes.Layout) { l.Unit = 0 },
		"a unit of -1ms":                               func(l *recipes.Layout) { l.Unit = -time.Millisecond },
		"a unit of 1.5ms":                              func(l *recipes.Layout) { l.Unit = 1500 * time.Microsecond },
		"an epoch of 2025-01-01 00:00:00.":             func(l *recipes.Layout) { l.Epoch = l.Epoch.Add(time.Microsecond) },
		"no epoch":                                     func(l *recipes.Layout) { l.Epoch = time.Time{} },
		"an epoch of 12025":                            func(l *recipes.Layout) { l.Epoch = l.Epoch.AddDate(10000, 0, 0) },
		"41 bits of 1h0m0s reach beyond the year 9999": func(l *recipes.Layout) { l.Unit = time.Hour },
	} {
		l := recipes.DefaultLayout()
		change(&l)
		err := l.Validate()
		wantErr(t, want, err, framework.ErrInvalidOption)
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := (recipes.Layout{}).Validate(); err == nil {
		t.Error("the zero layout is valid")
	}
}

func TestLayoutEqual(t *testing.T) {
	t.Parallel()
	l := recipes.DefaultLayout()
	elsewhere := l
	elsewhere.Epoch = l.Epoch.In(time.FixedZone("elsewhere", 3600))
	if !l.Equal(elsewhere) {
		t.Error("the same epoch in another zone is another layout")
	}
	for name, change := range map[string]func(l *recipes.Layout){
		"time":     func(l *recipes.Layout) { l.TimeBits-- },
		"worker":   func(l *recipes.Layout) { l.WorkerBits-- },
		"sequence": func(l *recipes.Layout) { l.SequenceBits-- },
		"unit":     func(l *recipes.Layout) { l.Unit++ },
		"epoch":    func(l *recipes.Layout) { l.Epoch = l.Epoch.Add(time.Millisecond) },
	} {
		other := l
		if change(&other); l.Equal(other) {
			t.Errorf("another %s is the same layout", name)
		}
	}
}

// anyLayout draws a layout that is valid.
func anyLayout(t *rapid.T) recipes.Layout {
	l := recipes.Layout{
		TimeBits: rapid.IntRange(1, 45).Draw(t, "time"),
		Unit:     time.Duration(rapid.IntRange(1, 5).Draw(t, "unit")) * time.Millisecond,
		Epoch:    time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "epoch")).UTC(),
	}
	l.WorkerBits = rapid.IntRange(0, min(31, 63-l.TimeBits)).Draw(t, "worker")
	l.SequenceBits = rapid.IntRange(0, min(62, 63-l.TimeBits-l.WorkerBits)).Draw(t, "sequence")
	return l
}
