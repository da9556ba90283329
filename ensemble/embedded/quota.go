package embedded

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A quota on a path is two plain nodes below /zookeeper/quota and that path.
// What zookeeper_limits holds is the client's affair; the mere node has the
// server keep the number of nodes and bytes in zookeeper_stats. Nothing is
// refused unless the server was told to ([WithEnforcedQuotas]).
const (
	quotaRoot  = "/zookeeper/quota"
	quotaLimit = "zookeeper_limits"
	quotaStats = "zookeeper_stats"
)

// quotaOf returns the path nearest to path, or path itself, that has a quota.
func (t *tree) quotaOf(path string) (string, bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for path != "" {
		if _, ok := t.quotas[path]; ok {
			return path, true
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	return "", false
}

// counted adds to what is counted for path's quota.
func (t *tree) counted(path string, nodes, bytes int) {
	quota, ok := t.quotaOf(path)
	if !ok {
		return
	}
	stats := t.get(quotaRoot + quota + "/" + quotaStats)
	if stats == nil {
		return
	}
	values := parseQuota(stats.data)
	values["count"] = quotaValue(values, "count") + int64(nodes)
	values["bytes"] = quotaValue(values, "bytes") + int64(bytes)
	t.replace(stats, formatQuota(values))
}

// replace gives a node that is in the tree other data.
func (t *tree) replace(n *node, data []byte) {
	t.size += len(data) - len(n.data)
	n.data = data
}

// exceeds reports whether so many nodes and bytes more at path would be beyond
// the hard limits of its quota. What is counted is the tree as it is, without
// the earlier parts of a multi.
func (t *tree) exceeds(path string, nodes, bytes int) bool {
	quota, ok := t.quotaOf(path)
	if !ok {
		return false
	}
	limit, stats := t.get(quotaRoot+quota+"/"+quotaLimit), t.get(quotaRoot+quota+"/"+quotaStats)
	if limit == nil || stats == nil {
		return false
	}
	limits, used := parseQuota(limit.data), parseQuota(stats.data)
	beyond := func(more int, key, hard string) bool {
		most := quotaValue(limits, hard)
		return more != 0 && most > -1 && quotaValue(used, key)+int64(more) > most
	}
	return beyond(nodes, "count", "countHardLimit") || beyond(bytes, "bytes", "byteHardLimit")
}

// length returns the length of the data at path, 0 if there is no node.
func (t *tree) length(path string) int {
	if n := t.get(path); n != nil {
		return len(n.data)
	}
	return 0
}

// quotaAdded does what a new node means for quotas.
func (t *tree) quotaAdded(path string, n *node) {
	if quota, ok := strings.CutPrefix(path, quotaRoot); ok {
		if on, ok := strings.CutSuffix(quota, "/"+quotaLimit); ok && on != "" {
			t.quotas[on] = struct{}{}
		}
		if on, ok := strings.CutSuffix(quota, "/"+quotaStats); ok {
			nodes, bytes := t.measure(on)
			t.replace(n, formatQuota(map[string]int64{"count": int64(nodes), "bytes": int64(bytes)}))
		}
	}
	t.counted(path, 1, len(n.data))
}

// quotaRemoved does what the end of a node means for quotas.
func (t *tree) quotaRemoved(path string, n *node) {
	if quota, ok := strings.CutPrefix(path, quotaRoot); ok {
		if on, ok := strings.CutSuffix(quota, "/"+quotaLimit); ok {
			delete(t.quotas, on)
		}
	}
	t.counted(path, -1, -len(n.data))
}

// measure counts the node at path and all below it, and their data.
func (t *tree) measure(path string) (nodes, bytes int) {
	n := t.get(path)
	if n == nil {
		return 0, 0
	}
	return n.measure()
}

func (n *node) measure() (nodes, bytes int) {
	nodes, bytes = 1, len(n.data)
	if n.children == nil {
		return nodes, bytes
	}
	for _, child := range n.children.nodes {
		count, size := child.measure()
		nodes, bytes = nodes+count, bytes+size
	}
	return nodes, bytes
}

// parseQuota reads "count=4,bytes=5=;countHardLimit=10". What is not of that
// form is left out.
func parseQuota(data []byte) map[string]int64 {
	values := make(map[string]int64)
	for pair := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		if n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64); err == nil {
			values[key] = n
		}
	}
	return values
}

// quotaValue is the value of a key, -1 if there is none.
func quotaValue(values map[string]int64, key string) int64 {
	if n, ok := values[key]; ok {
		return n
	}
	return -1
}

// formatQuota is the reverse of parseQuota. As in ZooKeeper the keys of old
// come first, and "=" hides the others from old readers.
func formatQuota(values map[string]int64) []byte {
	b := fmt.Appendf(nil, "count=%d,bytes=%d", quotaValue(values, "count"), quotaValue(values, "bytes"))
	separator := "=;"
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key != "count" && key != "bytes" {
			b = fmt.Appendf(b, "%s%s=%d", separator, key, values[key])
			separator = ";"
		}
	}
	return b
}
