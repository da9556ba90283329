package embedded

import (
	"strings"

	"github.com/batonzk/baton/internal/wire"
)

// validPath reports whether ZooKeeper takes path as the path of a node.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	for _, r := range path { // what is not UTF-8 is U+FFFD, here as in Java
		if forbidden(r) {
			return false
		}
	}
	return true
}

// forbidden reports whether r may not be part of a path. Above U+FFFF Java
// sees a pair of surrogates, which are in the forbidden range.
func forbidden(r rune) bool {
	switch {
	case r <= 0x1f, r >= 0x7f && r <= 0x9f:
		return true
	case r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
		return true
	}
	return false
}

// split returns the parent of path and the last name in it. The parent of a
// node right below the root is "", which [tree.get] takes for the root.
func split(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// reserved reports whether path is one of the nodes that always exist.
func reserved(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}

// splitForDelete is [split] for a node that shall be deleted.
func splitForDelete(path string) (parent string, code wire.Code) {
	parent, _, ok := split(path)
	if !ok || reserved(path) {
		return "", wire.CodeBadArguments
	}
	return parent, wire.CodeOK
}
