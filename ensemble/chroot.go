package ensemble

import (
	"strings"
	"unicode/utf8"
)

// parseChroot returns the chroot, "" for none. What it refuses is what the
// server refuses as a path (org.apache.zookeeper.common.PathUtils), so that a
// mistake shows here and not at the first operation.
func parseChroot(chroot string) (string, error) {
	switch {
	case strings.Contains(chroot, ","):
		return "", refuse("chroot %q has a comma in it; the chroot comes once, after the last server", chroot)
	case chroot == "" || chroot == "/":
		return "", nil
	case strings.HasSuffix(chroot, "/"):
		return "", refuse("chroot %q ends with a slash", chroot)
	case !utf8.ValidString(chroot):
		return "", refuse("chroot %q is not valid UTF-8", chroot)
	}
	for _, name := range strings.Split(chroot[1:], "/") {
		switch name {
		case "":
			return "", refuse("chroot %q has an empty name in it", chroot)
		case ".", "..":
			return "", refuse("chroot %q has %q in it, paths cannot be relative", chroot, name)
		}
	}
	for _, r := range chroot {
		if forbidden(r) {
			return "", refuse("chroot %q has the character %U in it", chroot, r)
		}
	}
	return chroot, nil
}

// forbidden lists the characters that the server accepts in no path.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}
