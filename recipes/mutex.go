package recipes

import "github.com/batonzk/baton/framework"

// An InterProcessMutex is a lock that at most one contender holds at a time,
// among all processes that use the same path of the same ensemble. It is
// fair: contenders get it in the order in which they asked. Its nodes are
// those of Curator's InterProcessMutex, with which it can be mixed.
//
// It has no state of its own: it can be shared by any number of goroutines
// and used again after whatever happened to a lease. Two goroutines exclude
// each other as two processes do, unless one passes on a context of its lease;
// see [Lease.Context].
type InterProcessMutex struct{ lock }

// mutexRule lets one contender in, the first.
var mutexRule = &rule{label: "lock-", closers: []string{"lock-"}}

// NewInterProcessMutex returns the mutex at path, which is the parent of the
// contenders' nodes and is made as a container when needed. It does no I/O. A
// malformed path or option is the error of every call that would do I/O.
func NewInterProcessMutex(client *framework.Client, path string, opts ...Option) *InterProcessMutex {
	return &InterProcessMutex{newLock("mutex", client, path, mutexRule, newSettings(opts))}
}
