package embedded_test

import (
	"slices"
	"testing"

	"github.com/batonzk/baton/internal/wire"
)

// Children come in the order of Java's hash sets, as read off a real server;
// what looks into the server directly is in plain order.
func TestOrderOfChildren(t *testing.T) {
	srv := start(t)
	c := connect(t, srv)
	for _, name := range []string{"lock-0000000002", "lock-0000000001", "a", "lock-0000000010", "näme", "zz"} {
		c.create("/"+name, "", wire.ModePersistent)
	}
	want := []string{"zz", "a", "zookeeper", "lock-0000000001", "lock-0000000010", "näme", "lock-0000000002"}
	if got := c.children("/", false); !slices.Equal(got, want) {
		t.Errorf("children %q, expected %q", got, want)
	}
	if n, _ := srv.Node("/"); !slices.IsSorted(n.Children) {
		t.Errorf("children %q are not sorted", n.Children)
	}
}
