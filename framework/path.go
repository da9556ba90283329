package framework

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidatePath returns an error wrapping [ErrInvalidPath] that names the path
// and the rule it breaks. The rules are ZooKeeper's: absolute, no trailing
// slash, no empty, "." or ".." component, no control or private-use
// characters, and nothing from U+FFF0 on.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: %q is empty", ErrInvalidPath, path)
	case path[0] != '/':
		return fmt.Errorf("%w: %q does not start with /", ErrInvalidPath, path)
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return fmt.Errorf("%w: %q ends with /", ErrInvalidPath, path)
	case !utf8.ValidString(path):
		return fmt.Errorf("%w: %q is not UTF-8", ErrInvalidPath, path)
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return fmt.Errorf("%w: %q has an empty component", ErrInvalidPath, path)
		case ".", "..":
			return fmt.Errorf("%w: %q has the component %q", ErrInvalidPath, path, name)
		}
	}
	for _, r := range path {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
			return fmt.Errorf("%w: %q contains %U", ErrInvalidPath, path, r)
		}
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
