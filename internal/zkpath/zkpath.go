// Package zkpath has ZooKeeper's rules for the paths of nodes, for all who
// have to follow them.
package zkpath

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem says which rule path breaks, in words that follow after the path:
// "ends with a slash". It returns "" for a path that a server accepts
// (org.apache.zookeeper.common.PathUtils).
func Problem(path string) string {
	switch {
	case path == "":
		return "is empty"
	case path[0] != '/':
		return "does not start with /"
	case path == "/":
		return ""
	case path[len(path)-1] == '/':
		return "ends with /"
	case !utf8.ValidString(path):
		return "is not UTF-8"
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return "has an empty component"
		case ".", "..":
			return fmt.Sprintf("has the component %q", name)
		}
	}
	for _, r := range path {
		if forbidden(r) {
			return fmt.Sprintf("contains %U", r)
		}
	}
	return ""
}

// forbidden reports whether no path may contain r. Above U+FFFF Java sees a
// pair of surrogates, which are in the forbidden range.
func forbidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
