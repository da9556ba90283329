package recipes_test

import (
	"cmp"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A maker makes locks of one kind, or of one side of a kind.
type maker func(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock

// A family is a kind of lock, for the tests that all kinds pass.
type family struct {
	name   string
	lock   maker
	rival  maker  // what excludes lock, if it is not lock itself
	label  string // before the number in the names of the nodes that are in the way
	under  string // where the line is, below the lock's path
	leases string // where the holders' nodes are, if they are not in the line
	limit  int    // how many may hold at once, 1 if it is 0
	once   bool   // it cannot be re-entered
}

var mutexes = family{
	name:  "mutex",
	label: "lock-",
	lock: func(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock {
		return recipes.NewInterProcessMutex(c, path, opts...)
	},
}

var semaphoreMutexes = family{
	name: "semaphore mutex", label: "lock-", under: "/locks", leases: "/leases", once: true,
	lock: func(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock {
		return recipes.NewInterProcessSemaphoreMutex(c, path, opts...)
	},
}

func semaphoresOf(limit int) family {
	return family{
		name: "semaphore", label: "lock-", under: "/locks", leases: "/leases", limit: limit, once: true,
		lock: func(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock {
			return recipes.NewInterProcessSemaphore(c, path, recipes.FixedLimit(limit), opts...)
		},
	}
}

func (f family) atOnce() int { return cmp.Or(f.limit, 1) }

// line returns the parent of the contenders of the lock at path.
func (f family) line(path string) string { return path + f.under }

// parents returns the parents of all nodes of the lock at path.
func (f family) parents(path string) []string {
	if f.leases == "" {
		return []string{f.line(path)}
	}
	return []string{f.line(path), path + f.leases}
}

// of makes the world one of another kind of lock.
func (f family) of(test func(w *world)) func(w *world) {
	return func(w *world) {
		w.family = f
		test(w)
	}
}

// lock returns the lock at root.
func (w *world) lock(c *framework.Client, opts ...recipes.Option) recipes.InterProcessLock {
	return w.family.lock(c, root, opts...)
}

// rival returns at root what excludes the lock.
func (w *world) rival(c *framework.Client, opts ...recipes.Option) recipes.InterProcessLock {
	if w.family.rival == nil {
		return w.lock(c, opts...)
	}
	return w.family.rival(c, root, opts...)
}

// fresh returns the lock at root for a new client.
func (w *world) fresh(opts ...recipes.Option) recipes.InterProcessLock {
	w.Helper()
	return w.lock(w.client(), opts...)
}

// nodes returns the paths of all nodes of the lock at path: of those who hold
// it and those in line.
func (w *world) nodes(c *framework.Client, path string) []string {
	w.Helper()
	var nodes []string
	for _, parent := range w.family.parents(path) {
		for _, name := range w.children(c, parent) {
			nodes = append(nodes, framework.JoinPath(parent, name))
		}
	}
	return nodes
}

// The sides of the read-write lock, each with what is in its way.
var (
	writers = family{name: "write lock", label: "__WRIT__", lock: writeLock}
	// readers wait for writers, and writersAmongReaders for readers.
	readers             = family{name: "read lock", label: "__WRIT__", lock: readLock, rival: writeLock}
	writersAmongReaders = family{name: "write lock", label: "__READ__", lock: writeLock, rival: readLock}
)

func readLock(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock {
	return recipes.NewInterProcessReadWriteLock(c, path, opts...).ReadLock()
}

func writeLock(c *framework.Client, path string, opts ...recipes.Option) recipes.InterProcessLock {
	return recipes.NewInterProcessReadWriteLock(c, path, opts...).WriteLock()
}

// readWrite returns the read-write lock at root for a new client.
func (w *world) readWrite(opts ...recipes.Option) *recipes.InterProcessReadWriteLock {
	w.Helper()
	return recipes.NewInterProcessReadWriteLock(w.client(), root, opts...)
}
