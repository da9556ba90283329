// Package arch_test asserts which way imports point. docs/design.md has the
// reasons.
package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/batonzk/baton"
	driver = "github.com/go-zookeeper/zk"
)

// pkg is what go list tells of a package; its tests are not in it.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string // all it needs, however far away
}

// path returns the import path within the module, "." for its root.
func (p pkg) path() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	touch(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,GoFiles,Imports,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.Join(err, errors.New(string(exit.Stderr)))
		}
		t.Fatal(err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// touch looks at every file of the module, so that go test knows what the
// result rests on, and does not give a cached one after a change.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	pkgs := list(t)
	if len(pkgs) < 3 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, problem := range violations(pkgs) {
		t.Error(problem)
	}
}

func TestDriverIsNamedInFewFiles(t *testing.T) {
	files, err := filesNaming(list(t), driver)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.Contains(f, "/framework/") {
			t.Errorf("%s names the driver; only framework may", f)
		}
	}
	if len(files) > 2 {
		t.Errorf("%d files name the driver, want at most two: %q", len(files), files)
	}
}

func TestFilesNamingFindsWhatIsThere(t *testing.T) {
	files, err := filesNaming(list(t), "github.com/cenkalti/backoff")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || !strings.HasSuffix(files[0], "/retry/schedule.go") {
		t.Errorf("%q, want retry/schedule.go alone", files)
	}
}

// A database is shown in an example; programs that import Baton must not need it.
func TestDatabaseStaysInExamples(t *testing.T) {
	const database = "github.com/ncruces/go-sqlite3"
	used := false
	for _, p := range list(t) {
		switch needs := slices.ContainsFunc(p.Deps, func(dep string) bool { return under(dep, database) }); {
		case needs && under(p.path(), "examples"):
			used = true
		case needs:
			t.Errorf("%s needs %s", p.path(), database)
		}
	}
	if !used {
		t.Errorf("no example needs %s", database)
	}
}

// The rules can fail: each of these breaks one.
func TestViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		name string
		p    pkg
	}{
		{"retry knows a sibling", pkg{ImportPath: "retry", Deps: []string{"ensemble"}}},
		{"framework above recipes", pkg{ImportPath: "framework", Deps: []string{"recipes"}}},
		{"framework with a server", pkg{ImportPath: "framework", Deps: []string{"ensemble/embedded"}}},
		{"recipes with a server", pkg{ImportPath: "recipes", Deps: []string{"ensemble/embedded"}}},
		{"recipes by a detour", pkg{ImportPath: "recipes", Deps: []string{"internal/x", "examples/x"}}},
		{"ensemble with framework", pkg{ImportPath: "ensemble", Deps: []string{"framework"}}},
		{"embedded with framework", pkg{ImportPath: "ensemble/embedded", Deps: []string{"framework"}}},
		{"a part of embedded with recipes", pkg{ImportPath: "ensemble/embedded/x", Deps: []string{"recipes"}}},
		{"apache with framework", pkg{ImportPath: "ensemble/apache", Deps: []string{"framework"}}},
		{"an example in an example", pkg{ImportPath: "examples/x", Deps: []string{"cmd/baton"}}},
		{"recipes with testing", pkg{ImportPath: "recipes", Deps: []string{"testing"}}},
		{"testing far away", pkg{ImportPath: "recipes", Deps: []string{"testing/iotest"}}},
		{"testing in internal", pkg{ImportPath: "internal/x", Imports: []string{"testing"}}},
	} {
		p := c.p
		p.ImportPath = module + "/" + p.ImportPath
		for i, dep := range p.Deps {
			if !strings.HasPrefix(dep, "testing") {
				p.Deps[i] = module + "/" + dep
			}
		}
		if found := violations([]pkg{p}); len(found) == 0 {
			t.Errorf("%s: not found", c.name)
		}
	}
}

func TestAllowedImportsAreNotViolations(t *testing.T) {
	pkgs := []pkg{
		{ImportPath: "cmd/baton", Name: "main", Deps: []string{"recipes", "framework", "ensemble/embedded", "ensemble/apache"}},
		{ImportPath: "examples/quickstart", Name: "main", Deps: []string{"recipes", "ensemble/embedded"}},
		{ImportPath: "recipes", Deps: []string{"framework", "retry", "internal/x"}},
		{ImportPath: "framework", Deps: []string{"retry", "internal/x"}},
		{ImportPath: "ensemble/embedded", Deps: []string{"internal/wire"}},
		{ImportPath: "ensemble/apache", Deps: []string{"ensemble"}},
		{ImportPath: "internal/testenv", Deps: []string{"ensemble/apache", "framework", "recipes"}},
	}
	for i, p := range pkgs {
		pkgs[i].ImportPath = module + "/" + p.ImportPath
		for j, dep := range p.Deps {
			p.Deps[j] = module + "/" + dep
		}
	}
	if found := violations(pkgs); len(found) != 0 {
		t.Errorf("%q", found)
	}
}

// under reports whether path is one of the given folders or below one.
func under(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path == folder || strings.HasPrefix(path, folder+"/")
	})
}
