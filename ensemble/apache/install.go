package apache

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// environment is what Debian's scripts read to find the server.
const environment = "/usr/share/zookeeper/bin/zkEnv.sh"

// logging writes the server's log to its standard error. The server's own
// class path has no logger in it, so that it would be silent.
const logging = "/usr/share/java/slf4j-simple.jar"

// installation is where the server's parts are.
type installation struct {
	java      string
	classpath string
	main      string // name of the class
}

// Installed returns nil if servers can be started on this machine, or an error
// that matches [ErrNotInstalled] and says what to install. It runs a shell for
// a moment, no server.
func Installed() error {
	_, err := locate()
	return err
}

func locate() (installation, error) {
	if runtime.GOOS != "linux" {
		return installation{}, fmt.Errorf("%w: on %s it is not supported, only on Debian and its kin", ErrNotInstalled, runtime.GOOS)
	}
	if _, err := os.Stat(environment); err != nil {
		return installation{}, missing(err, "zookeeper")
	}
	out, err := exec.Command("/bin/sh", "-c", `. "$0" && printf '%s\n' "$JAVA" "$CLASSPATH" "$ZOOMAIN"`, environment).Output()
	if err != nil {
		return installation{}, missing(fmt.Errorf("%s cannot be read: %w", environment, err), "zookeeper")
	}
	values := strings.Split(string(out), "\n")
	if len(values) < 3 || values[1] == "" || values[2] == "" {
		return installation{}, missing(fmt.Errorf("%s does not tell the class path and the main class", environment), "zookeeper")
	}
	classpath, err := jars(values[1])
	if err != nil {
		return installation{}, missing(err, "libzookeeper-java")
	}
	java, err := exec.LookPath(values[0])
	if err != nil {
		return installation{}, missing(err, "default-jre-headless")
	}
	return installation{java: java, classpath: classpath, main: values[2]}, nil
}

func missing(err error, debianPackage string) error {
	return fmt.Errorf("%w: %w; on Debian: apt-get install %s", ErrNotInstalled, err, debianPackage)
}

// jars returns the class path without its folders, which hold the machine's
// own configuration, and with a logger.
func jars(classpath string) (string, error) {
	var kept []string
	for _, element := range strings.Split(classpath, ":") {
		if !strings.HasSuffix(element, ".jar") {
			continue
		}
		if _, err := os.Stat(element); err != nil {
			return "", err
		}
		kept = append(kept, element)
	}
	if _, err := os.Stat(logging); err == nil {
		kept = append(kept, logging)
	}
	return strings.Join(kept, ":"), nil
}
