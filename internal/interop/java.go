//go:build linux

package interop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed Peer.java
var peerJava []byte

// ErrNotInstalled is matched by the errors of StartJava and StartKazoo if something is absent. The
// text names the Debian package to install.
var ErrNotInstalled = errors.New("interop: not installed")

// jars are what Curator needs, and the Debian packages that bring them.
var jars = []struct{ path, debianPackage string }{
	{"/usr/share/java/curator-recipes.jar", "libcurator-recipes-java"},
	{"/usr/share/java/curator-framework.jar", "libcurator-framework-java"},
	{"/usr/share/java/curator-client.jar", "libcurator-client-java"},
	{"/usr/share/java/zookeeper.jar", "libzookeeper-java"},
	{"/usr/share/java/zookeeper-jute.jar", "libzookeeper-java"},
	{"/usr/share/java/guava.jar", "libguava-java"},
	{"/usr/share/java/slf4j-api.jar", "libslf4j-java"},
	{"/usr/share/java/slf4j-simple.jar", "libslf4j-java"},
}

// javaOptions make the virtual machine start soon, leave no files, and log to
// standard error what is worth a warning.
var javaOptions = []string{
	"-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
}

// StartJava starts Apache Curator as Debian packages it, version 5.4 in Debian
// 12, in a virtual machine of its own. ctx bounds the start, which takes about
// a second and includes the peer's compilation. The caller must Close it.
func StartJava(ctx context.Context) (*Peer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	classpath, err := javaInstalled()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "baton-interop-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // a peer that is ready has read it
	source := filepath.Join(dir, "Peer.java")
	if err := os.WriteFile(source, peerJava, 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"-cp", classpath}, javaOptions...)
	return start(ctx, "java", exec.Command("java", append(args, source)...))
}

// javaInstalled returns the class path, or says what is absent.
func javaInstalled() (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", notInstalled(err, "default-jdk-headless")
	}
	// To run a source file takes a JDK; a JRE has java, too, but no compiler.
	if _, err := exec.LookPath("javac"); err != nil {
		return "", notInstalled(err, "default-jdk-headless")
	}
	var paths []string
	for _, jar := range jars {
		if _, err := os.Stat(jar.path); err != nil {
			return "", notInstalled(err, jar.debianPackage)
		}
		paths = append(paths, jar.path)
	}
	return strings.Join(paths, ":"), nil
}

func notInstalled(err error, debianPackage string) error {
	return fmt.Errorf("%w: %w; on Debian: apt-get install %s", ErrNotInstalled, err, debianPackage)
}
