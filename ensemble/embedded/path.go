package embedded

import (
	"strings"

	"github.com/batonzk/baton/internal/wire"
	"github.com/batonzk/baton/internal/zkpath"
)

// validPath reports whether ZooKeeper takes path as the path of a node.
func validPath(path string) bool { return zkpath.Problem(path) == "" }

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
