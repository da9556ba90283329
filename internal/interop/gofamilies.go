//go:build linux

package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

// A recipe is what the locks of a Go peer have in common.
type recipe interface {
	Acquire(ctx context.Context) (*recipes.Lease, error)
	TryAcquire(ctx context.Context) (*recipes.Lease, error)
	Participants(ctx context.Context) ([]recipes.Participant, error)
}

// A family makes the locks that go by an ID, from the words that follow it.
type family func(s *goPeer, c *framework.Client, id, path string, rest []string) ([]*goLock, error)

// families are the families by the verb that makes one.
var families = map[string]family{
	"mutex": single(func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessMutex(c, path, opts...)
	}),
	"semaphoremutex": single(func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessSemaphoreMutex(c, path, opts...)
	}),
	"readwrite": readWrite,
	"semaphore": semaphore,
}

// The IDs of a read-write lock's sides end like this.
const (
	readSide  = ".read"
	writeSide = ".write"
)

// readWrite is the family of locks that have two sides.
func readWrite(s *goPeer, c *framework.Client, id, path string, _ []string) ([]*goLock, error) {
	read := &goLock{peer: s, client: c, id: id + readSide, path: path}
	read.open = func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessReadWriteLock(c, path, opts...).ReadLock()
	}
	write := &goLock{peer: s, client: c, id: id + writeSide, path: path, alone: true}
	write.open = func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessReadWriteLock(c, path, opts...).WriteLock()
	}
	read.other, write.other = write, read
	return []*goLock{read, write}, nil
}

// semaphore is the family of locks with a limit.
func semaphore(s *goPeer, c *framework.Client, id, path string, rest []string) ([]*goLock, error) {
	if len(rest) != 1 {
		return nil, fmt.Errorf("%w: semaphore without a limit", errUsage)
	}
	var limit recipes.Limit
	if strings.HasPrefix(rest[0], "/") {
		limit = recipes.SharedLimit(recipes.NewSharedCount(c, rest[0], 0))
	} else {
		n, err := strconv.Atoi(rest[0])
		if err != nil {
			return nil, err
		}
		limit = recipes.FixedLimit(n)
	}
	open := func(c *framework.Client, path string, opts ...recipes.Option) recipe {
		return recipes.NewInterProcessSemaphore(c, path, limit, opts...)
	}
	return []*goLock{{peer: s, client: c, id: id, path: path, open: open}}, nil
}

// opener makes a recipe.
type opener func(c *framework.Client, path string, opts ...recipes.Option) recipe

// single is a family of locks that have one side, and one holder.
func single(open opener) family {
	return func(s *goPeer, c *framework.Client, id, path string, _ []string) ([]*goLock, error) {
		return []*goLock{{peer: s, client: c, id: id, path: path, open: open, alone: true}}, nil
	}
}
