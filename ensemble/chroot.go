package ensemble

import (
	"strings"

	"github.com/batonzk/baton/internal/zkpath"
)

// parseChroot returns the chroot, "" for none. What it refuses is what the
// server refuses as a path, so that a mistake shows here and not at the first
// operation; and a comma, which is a mistake more often than a name.
func parseChroot(chroot string) (string, error) {
	if chroot == "" || chroot == "/" {
		return "", nil
	}
	if strings.Contains(chroot, ",") {
		return "", refuse("chroot %q has a comma in it; the chroot comes once, after the last server", chroot)
	}
	if problem := zkpath.Problem(chroot); problem != "" {
		return "", refuse("chroot %q %s", chroot, problem)
	}
	return chroot, nil
}
