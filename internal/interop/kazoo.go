//go:build linux

package interop

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
)

//go:embed peer.py
var peerPython []byte

// python is Debian's, for which Debian packages kazoo.
const python = "/usr/bin/python3"

// kazooModule is where Debian's kazoo lies.
const kazooModule = "/usr/lib/python3/dist-packages/kazoo/client.py"

// StartKazoo starts kazoo, the Python client, as Debian packages it, version
// 2.8 in Debian 12, in a process of its own. ctx bounds the start. The caller
// must Close it.
func StartKazoo(ctx context.Context) (*Peer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, file := range []string{python, kazooModule} {
		if _, err := os.Stat(file); err != nil {
			return nil, notInstalled(err, "python3-kazoo")
		}
	}
	return start(ctx, "kazoo", exec.Command(python, "-c", string(peerPython)))
}
