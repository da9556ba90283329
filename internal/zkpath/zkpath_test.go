package zkpath_test

import (
	"strings"
	"testing"

	"github.com/batonzk/baton/internal/zkpath"
)

func TestProblem(t *testing.T) {
	for path, want := range map[string]string{
		"": "empty", "a": "start with /", "/a/": "ends with /", "//": "ends with /", "/a//b": "empty component",
		"/.": `component "."`, "/a/..": `component ".."`, "/\xff": "UTF-8",
		"/\x00": "U+0000", "/a\x1f": "U+001F", "/\x7f": "U+007F", "/\u009f": "U+009F",
		"/\ue000": "U+E000", "/\uf8ff": "U+F8FF", "/\ufff0": "U+FFF0", "/\uffff": "U+FFFF", "/😀": "U+1F600",
	} {
		if got := zkpath.Problem(path); got == "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/", "/a", "/a/...", "/a b", "/é\u00a0", "/\ud7ff", "/\uf900", "/\uffef"} {
		if got := zkpath.Problem(path); got != "" {
			t.Errorf("%q: %s", path, got)
		}
	}
}
