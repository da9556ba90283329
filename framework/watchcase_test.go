package framework_test

import (
	"testing"

	"github.com/batonzk/baton/framework"
)

// A watchCase is a change and the event it means to a watch that was set
// before.
type watchCase struct {
	name  string
	setUp func(t testing.TB, c *framework.Client)
	watch func(t testing.TB, c *framework.Client, path string) *framework.Watch
	do    func(t testing.TB, c *framework.Client)
	want  framework.EventType
}

func watchCases() []watchCase {
	none := func(testing.TB, *framework.Client) {}
	node := func(t testing.TB, c *framework.Client) { create(t, c, "/n", "") }
	change := func(t testing.TB, c *framework.Client) { set(t, c, "/n", "x") }
	gone := func(t testing.TB, c *framework.Client) { remove(t, c, "/n") }
	child := func(t testing.TB, c *framework.Client) { create(t, c, "/n/c", "") }
	anew := func(t testing.TB, c *framework.Client) { remove(t, c, "/n"); create(t, c, "/n", "") }
	return []watchCase{
		{"get, set", node, getW, change, framework.EventDataChanged},
		{"get, delete", node, getW, gone, framework.EventDeleted},
		{"get, delete and create", node, getW, anew, framework.EventDeleted},
		{"get, child", node, getW, child, 0},
		{"get, nothing", node, getW, none, 0},
		{"exists, set", node, existsW, change, framework.EventDataChanged},
		{"exists, delete", node, existsW, gone, framework.EventDeleted},
		{"exists, nothing", node, existsW, none, 0},
		{"missing, create", none, existsW, node, framework.EventCreated},
		{"missing, nothing", none, existsW, none, 0},
		{"children, create", node, childrenW, child, framework.EventChildrenChanged},
		{"children, delete", node, childrenW, gone, framework.EventDeleted},
		{"children, delete and create", node, childrenW, anew, framework.EventDeleted},
		{"children, set", node, childrenW, change, 0},
		{"children, nothing", node, childrenW, none, 0},
		{"children, create and delete child", node, childrenW, func(t testing.TB, c *framework.Client) {
			create(t, c, "/n/c", "")
			remove(t, c, "/n/c")
		}, framework.EventChildrenChanged},
	}
}
