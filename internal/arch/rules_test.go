package arch_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A rule says which packages of the module those in a folder must not need,
// directly or by way of others. Packages that do not exist break no rule.
type rule struct {
	in     []string
	except []string // folders below in that have their own rule
	never  []string
}

var rules = []rule{
	{in: []string{"retry"}, never: []string{".", "cmd", "examples", "recipes", "framework", "ensemble", "internal"}},
	{in: []string{"framework"}, never: []string{"cmd", "examples", "recipes", "ensemble"}},
	{in: []string{"recipes"}, never: []string{"cmd", "examples", "ensemble"}},
	{in: []string{"ensemble"}, never: []string{"cmd", "examples", "recipes", "framework"}},
	{in: []string{"ensemble"}, except: []string{"ensemble/embedded", "ensemble/apache"}, never: []string{"ensemble/embedded", "ensemble/apache"}},
	{in: []string{"internal"}, never: []string{"cmd", "examples"}},
	{in: []string{"cmd", "examples"}, never: []string{"cmd", "examples"}},
}

// violations returns a sentence for each rule that one of pkgs breaks.
func violations(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		for _, r := range rules {
			found = append(found, r.violations(p)...)
		}
		found = append(found, testingViolations(p)...)
	}
	return found
}

func (r rule) violations(p pkg) []string {
	if !under(p.path(), r.in...) || under(p.path(), r.except...) {
		return nil
	}
	var found []string
	for _, dep := range p.Deps {
		if !under(dep, module) {
			continue
		}
		d := pkg{ImportPath: dep}.path()
		// A program may consist of several packages below its own folder.
		if under(d, r.never...) && !under(d, program(p.path())) {
			found = append(found, fmt.Sprintf("%s needs %s", p.path(), d))
		}
	}
	return found
}

// program returns the folder of the program that a package is part of, or the
// package itself.
func program(path string) string {
	if parts := strings.Split(path, "/"); under(path, "cmd", "examples") && len(parts) > 2 {
		return strings.Join(parts[:2], "/")
	}
	return path
}

// testingViolations finds packages that put package testing, with its flags,
// into the programs of users. What is internal must not import it itself.
func testingViolations(p pkg) []string {
	imports := p.Deps
	if under(p.path(), "internal") {
		imports = p.Imports
	}
	for _, dep := range imports {
		if under(dep, "testing") {
			return []string{fmt.Sprintf("%s needs %s", p.path(), dep)}
		}
	}
	return nil
}

// filesNaming returns the files, tests left out, that import the given package
// or one below it.
func filesNaming(pkgs []pkg, path string) ([]string, error) {
	var files []string
	for _, p := range pkgs {
		if !slices.ContainsFunc(p.Imports, func(i string) bool { return under(i, path) }) {
			continue
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return nil, err
			}
			for _, spec := range f.Imports {
				if imported, err := strconv.Unquote(spec.Path.Value); err == nil && under(imported, path) {
					files = append(files, file)
					break
				}
			}
		}
	}
	return files, nil
}
