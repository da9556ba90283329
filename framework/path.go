package framework

import (
	"fmt"
	"strings"

	"github.com/batonzk/baton/internal/zkpath"
)

// ValidatePath returns an error wrapping [ErrInvalidPath] that names the path
// and the rule it breaks. The rules are ZooKeeper's: absolute, no trailing
// slash, no empty, "." or ".." component, no control or private-use
// characters, and nothing from U+FFF0 on.
func ValidatePath(path string) error {
	if problem := zkpath.Problem(path); problem != "" {
		return fmt.Errorf("%w: %q %s", ErrInvalidPath, path, problem)
	}
	return nil
}

// JoinPath joins a node's path and a child's name.
func JoinPath(parent, name string) string {
	if parent == "/" {
		return parent + name
	}
	return parent + "/" + name
}

// SplitPath splits a node's path into its parent's path and its own name.
// The root has itself as parent and an empty name.
func SplitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/", path[i+1:]
	}
	return path[:i], path[i+1:]
}

// addPrefix puts path below prefix, which is "" or a valid path but "/".
func addPrefix(prefix, path string) string {
	if prefix == "" {
		return path
	}
	if path == "/" {
		return prefix
	}
	return prefix + path
}

// trimPrefix undoes addPrefix. It goes by whole components: under the prefix
// /foo, the path /foobar stays as it is.
func trimPrefix(prefix, path string) string {
	if prefix == "" {
		return path
	}
	rest, ok := strings.CutPrefix(path, prefix)
	switch {
	case !ok:
		return path
	case rest == "":
		return "/"
	case rest[0] != '/':
		return path
	}
	return rest
}
