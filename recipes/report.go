package recipes

import "sync"

// A reporter remembers which nodes the log was told of, so that it hears of each
// once. Its zero value has told of none.
type reporter struct {
	mu    sync.Mutex
	known map[string]struct{}
}

// reportedMax bounds what a reporter remembers; it tells of no more.
const reportedMax = 1000

// isNew reports whether the log is to be told of node now.
func (r *reporter) isNew(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[node]; known || len(r.known) >= reportedMax {
		return false
	}
	if r.known == nil {
		r.known = make(map[string]struct{})
	}
	r.known[node] = struct{}{}
	return true
}
