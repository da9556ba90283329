package embedded

import (
	"sync/atomic"

	"github.com/batonzk/baton/internal/wire"
)

// A kind says when a node is deleted without anyone asking for it.
type kind uint8

const (
	persistent kind = iota
	ephemeral       // with the session that owns it
	container       // when its last child is gone
	timed           // when it has no children and was not changed for its TTL
)

var kindNames = [...]string{"persistent", "ephemeral", "container", "ttl"}

// A node is one znode. It is guarded by the lock of its server; data and acl
// are never changed in place, only replaced.
type node struct {
	record
	seq      int64 // grows with each node made
	data     []byte
	children *children // nil if there never were any
}

// A record is what the rules for a change look at: all of a node but its
// data and its children.
type record struct {
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64 // ms since 1970
	version, cversion, aversion int32 // cversion counts creations only
	childCount                  int32
	kind                        kind
	owner                       int64 // the session of an ephemeral node, the TTL in ms of a timed one
	acl                         []wire.ACL
}

// stat returns the node's statistics as clients see them. The server counts
// the creations below a node; clients are shown creations and deletions.
func (n *node) stat() wire.Stat {
	st := wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.cversion*2 - n.childCount, Aversion: n.aversion,
		DataLength: int32(len(n.data)), NumChildren: n.childCount,
	}
	if n.kind == ephemeral {
		st.EphemeralOwner = n.owner
	}
	return st
}

// children are the nodes below a node.
type children struct {
	nodes  map[string]*node
	set    hashSet
	listed atomic.Pointer[[]string] // their names in the order of set; nil after a change
}

// names returns the names of n's children, in the order in which a real server
// lists them. The slice is shared: nobody may change it. Several readers may
// call it at once.
func (n *node) names() []string {
	if n.children == nil {
		return nil
	}
	if p := n.children.listed.Load(); p != nil {
		return *p
	}
	elements := make([]element, 0, len(n.children.nodes))
	for name, child := range n.children.nodes {
		elements = append(elements, element{name, hashOf(name), child.seq})
	}
	n.children.set.list(elements)
	names := values(elements)
	n.children.listed.Store(&names)
	return names
}

func (n *node) addChild(name string, child *node) {
	if n.children == nil {
		n.children = &children{nodes: make(map[string]*node), set: hashSet{8}}
	}
	n.children.nodes[name] = child
	n.children.set.added(len(n.children.nodes))
	n.children.listed.Store(nil)
	n.childCount++
}

func (n *node) removeChild(name string) {
	delete(n.children.nodes, name)
	n.children.listed.Store(nil)
	n.childCount--
}

// A tree is all nodes of a server, by path.
type tree struct {
	nodes map[string]*node
	reap  map[string]*node // containers and timed nodes
	seq   int64            // of the last node made

	size    int                 // of all paths and data, in bytes
	aclSize int                 // of all ACLs that are not shared
	quotas  map[string]struct{} // paths that have one
}

func newTree() *tree {
	t := &tree{nodes: make(map[string]*node), reap: make(map[string]*node), quotas: make(map[string]struct{})}
	root := &node{data: []byte{}, record: record{acl: openACL}}
	t.nodes["/"] = root
	t.size = len("/")
	t.nodes[""] = root // the root has an alias, as in ZooKeeper
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.add(path, &node{data: []byte{}, record: record{acl: openACL}})
	}
	config := t.nodes["/zookeeper/config"]
	config.acl, config.aversion = []wire.ACL{{Perms: wire.PermRead, Scheme: "world", ID: "anyone"}}, -1
	return t
}

// treeLimits are how large a tree may become.
type treeLimits struct{ nodes, bytes int }

// count returns the number of nodes.
func (t *tree) count() int { return len(t.nodes) - 1 } // the root is there twice

// get returns the node at path, nil if there is none.
func (t *tree) get(path string) *node { return t.nodes[path] }

// add puts n at path, whose parent exists.
func (t *tree) add(path string, n *node) {
	t.seq++
	n.seq = t.seq
	parent, name, _ := split(path)
	t.nodes[parent].addChild(name, n)
	t.nodes[path] = n
	if n.kind == container || n.kind == timed {
		t.reap[path] = n
	}
	t.size += len(path) + len(n.data)
	t.aclSize += aclSize(n.acl)
	t.quotaAdded(path, n)
}

// remove takes away the node at path and returns it.
func (t *tree) remove(path string) *node {
	n := t.nodes[path]
	parent, name, _ := split(path)
	t.nodes[parent].removeChild(name)
	delete(t.nodes, path)
	delete(t.reap, path)
	t.size -= len(path) + len(n.data)
	t.aclSize -= aclSize(n.acl)
	t.quotaRemoved(path, n)
	return n
}

// changed notes that the data of the node at path is to grow by so many bytes.
func (t *tree) changed(path string, bytes int) {
	t.size += bytes
	t.counted(path, 0, bytes)
}

// count returns the number of nodes below n.
func (n *node) count() int {
	if n.children == nil {
		return 0
	}
	total := len(n.children.nodes)
	for _, child := range n.children.nodes {
		total += child.count()
	}
	return total
}
