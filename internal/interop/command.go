//go:build linux

package interop

import (
	"context"
	"os/exec"
)

// JavaCommand returns the command that runs a Java source file with Apache
// Curator on its class path, in a virtual machine set up as StartJava's. The
// error matches [ErrNotInstalled].
func JavaCommand(ctx context.Context, source string, args ...string) (*exec.Cmd, error) {
	classpath, err := javaInstalled()
	if err != nil {
		return nil, err
	}
	all := append([]string{"-cp", classpath}, javaOptions...)
	all = append(append(all, source), args...)
	return exec.CommandContext(ctx, "java", all...), nil
}
