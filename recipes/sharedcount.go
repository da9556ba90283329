package recipes

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/batonzk/baton/framework"
)

// A SharedCount is a number that all processes share which use the same path.
// It is kept as Curator's SharedCount keeps it: four bytes, big-endian, in a
// persistent node, whose parents are made as containers.
//
// It has no state of its own, each call asks the servers; it is safe for
// concurrent use. [SharedLimit] makes it the limit of a semaphore.
type SharedCount struct {
	client *framework.Client
	path   string
	seed   int32
	err    error // why it cannot be used
}

// NewSharedCount returns the count at path. Where there is none it is made, with
// the value seed, by the first call that reads it. It does no I/O. A malformed
// path is the error of every call that would do I/O.
func NewSharedCount(client *framework.Client, path string, seed int32) *SharedCount {
	c := &SharedCount{client: client, path: path, seed: seed}
	if err := validateRoot(client, path); err != nil {
		c.err = fmt.Errorf("recipes: shared count %q: %w", path, err)
	}
	return c
}

// Path returns the count's path as it was given.
func (c *SharedCount) Path() string { return c.path }

// Get returns the value, and its version for [SharedCount.TrySet]. It blocks
// until a server has answered, as [framework.Client.Get] does. Its answer may
// lag behind that of others, as any read's.
func (c *SharedCount) Get(ctx context.Context) (value, version int32, err error) {
	if c.err != nil {
		return 0, 0, c.err
	}
	read, _, err := c.read(ctx, false)
	return int32(read.value), read.version, err
}

// Set sets the value, whatever it was. It blocks as [framework.Client.Set]
// does.
func (c *SharedCount) Set(ctx context.Context, value int32) error {
	if c.err != nil {
		return c.err
	}
	_, err := c.client.Set(ctx, c.path, encodeCount(value), framework.AnyVersion)
	if says(ctx, err, framework.ErrNoNode) {
		_, err = c.client.Create(ctx, c.path, encodeCount(value), framework.WithParents(), framework.OrSet())
	}
	return c.failed(ctx, err)
}

// TrySet sets the value if its version is still the one that
// [SharedCount.Get] has returned. Else it fails with [framework.ErrBadVersion],
// or [framework.ErrNoNode] if the count was deleted. It blocks as
// [framework.Client.Set] does.
func (c *SharedCount) TrySet(ctx context.Context, version, value int32) error {
	if c.err != nil {
		return c.err
	}
	if version == framework.AnyVersion {
		return c.failed(ctx, fmt.Errorf("%w: %d is no version that was read", framework.ErrInvalidOption, version))
	}
	_, err := c.client.Set(ctx, c.path, encodeCount(value), version, framework.Idempotent())
	return c.failed(ctx, err)
}

// counted is a number as it was read.
type counted struct {
	value   int
	version int32
}

// read returns the value, with a watch if that is asked for. If there is no
// count it makes one.
func (c *SharedCount) read(ctx context.Context, watching bool) (counted, *framework.Watch, error) {
	for {
		data, stat, w, err := c.get(ctx, watching)
		if says(ctx, err, framework.ErrNoNode) {
			_, err = c.client.Create(ctx, c.path, encodeCount(c.seed), framework.WithParents(), framework.Idempotent())
			if err == nil || says(ctx, err, framework.ErrNodeExists) {
				continue
			}
		}
		var value int
		if err == nil {
			value, err = decodeCount(data)
		}
		if err != nil {
			stop(w)
			return counted{}, nil, c.failed(ctx, err)
		}
		return counted{value: value, version: stat.Version}, w, nil
	}
}

func (c *SharedCount) get(ctx context.Context, watching bool) ([]byte, framework.Stat, *framework.Watch, error) {
	if watching {
		return c.client.GetW(ctx, c.path)
	}
	data, stat, err := c.client.Get(ctx, c.path)
	return data, stat, nil, err
}

// failed adds to err what it is about.
func (c *SharedCount) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("recipes: shared count %s: %w", c.path, withContext(ctx, err))
}

const countSize = 4

func encodeCount(value int32) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(value))
}

func decodeCount(data []byte) (int, error) {
	if len(data) != countSize {
		return 0, fmt.Errorf("it holds %s, which are not the %d bytes of a count", quote(data), countSize)
	}
	return int(int32(binary.BigEndian.Uint32(data))), nil
}
