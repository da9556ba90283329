package recipes

import (
	"context"
	"fmt"
	"math"

	"github.com/batonzk/baton/framework"
)

// An InterProcessReadWriteLock is a pair of locks on one path: at most one
// contender holds the write lock, and nobody else holds either then; any
// number hold the read lock at a time. It is fair: a reader lets pass the
// writers who asked before it and no others, so that neither side starves. Its nodes
// are those of Curator's InterProcessReadWriteLock, 5.5 and later, with which
// it can be mixed.
//
// It has no state of its own: it can be shared by any number of goroutines
// and used again after whatever happened to a lease.
//
// Each side is re-entered with a context of its leases, see [Lease.Context].
// From one side to the other:
//
//   - A writer may read. With a context of a write lease the read lock is
//     acquired without a wait, and keeps what it covers closed to other writers
//     when the write lease is released: so a writer becomes a reader, with nobody
//     in between. See [ReadLock].
//   - A reader cannot write. With a context of a read lease and of no write
//     lease, to acquire the write lock fails with [ErrDeadlock] at once.
//     Release the read lease first, and look again at what was read, since
//     others may write in between.
type InterProcessReadWriteLock struct {
	read  ReadLock
	write WriteLock
}

// A ReadLock is the side of an [InterProcessReadWriteLock] that readers
// share.
//
// Acquired with a context of a write lease of the same lock, it takes its
// place in the line from that, and waits for nobody. Its [Lease.Token] is the
// writer's. It is a hold of its own: it must be released, may outlive the write
// lease and may end before that. If the write lease turns out to be lost,
// Acquire fails with that lease's error. Where the counter of the
// lock's path has come to its end, which takes two thousand million contenders, this
// is refused, since the places of such contenders are not told apart by number.
type ReadLock struct{ lock }

// A WriteLock is the side of an [InterProcessReadWriteLock] that one
// contender holds alone.
type WriteLock struct{ lock }

const (
	readLabel  = "__READ__"
	writeLabel = "__WRIT__"
)

var (
	readRule = &rule{
		label:   readLabel,
		others:  []string{writeLabel},
		blocks:  readWriteBlocks,
		closers: []string{writeLabel},
	}
	writeRule = &rule{
		label:   writeLabel,
		others:  []string{readLabel},
		blocks:  readWriteBlocks,
		closers: []string{writeLabel, readLabel},
		// It may have become a reader, who has the place that it had.
		rejoins: func(other contender) bool { return other.label == writeLabel },
	}
)

// readWriteBlocks: a writer waits for everybody ahead, a reader for writers. A
// reader with a writer's number was that writer, see [line.downgrade].
func readWriteBlocks(own, other contender) bool {
	if own.label == writeLabel {
		return true
	}
	return other.label == writeLabel && (other.seq != own.seq || own.seq == math.MaxInt32)
}

// NewInterProcessReadWriteLock returns the read-write lock at path, which is
// the parent of the contenders' nodes and is made as a container when needed.
// The options are for both sides. It does no I/O. A malformed path or option is
// the error of every call that would do I/O.
func NewInterProcessReadWriteLock(client *framework.Client, path string, opts ...Option) *InterProcessReadWriteLock {
	s := newSettings(opts)
	rw := &InterProcessReadWriteLock{
		read:  ReadLock{newLock("read lock", client, path, readRule, s)},
		write: WriteLock{newLock("write lock", client, path, writeRule, s)},
	}
	rw.read.enter = rw.enterRead
	rw.write.enter = rw.enterWrite
	return rw
}

// ReadLock returns the readers' side. It is always the same.
func (rw *InterProcessReadWriteLock) ReadLock() *ReadLock { return &rw.read }

// WriteLock returns the writers' side. It is always the same.
func (rw *InterProcessReadWriteLock) WriteLock() *WriteLock { return &rw.write }

// Explain explains both sides at once, as that of either does.
func (rw *InterProcessReadWriteLock) Explain(ctx context.Context) (Explanation, error) {
	return rw.read.Explain(ctx)
}

// Participants returns who stands in line for either side, in the line's order;
// that of a side returns those of the side. The label in [Participant.Name] tells
// them apart: __READ__ or __WRIT__. Else it is like that of [InterProcessMutex].
func (rw *InterProcessReadWriteLock) Participants(ctx context.Context) ([]Participant, error) {
	return rw.read.everybody(ctx)
}

// Path returns the lock's path as it was given.
func (rw *InterProcessReadWriteLock) Path() string { return rw.read.Path() }

// enterRead is the read lock's enter: re-entry, a writer's downgrade, or a
// new place in line.
func (rw *InterProcessReadWriteLock) enterRead(ctx context.Context, try bool) (*Lease, error) {
	reads, writes := rw.read.line, rw.write.line
	writer, writing := writes.carried(ctx)
	if _, reading := reads.carried(ctx); reading || !writing {
		return reads.enter(ctx, try)
	}
	if err := writer.live(ctx); err != nil {
		return nil, err
	}
	return reads.downgrade(ctx, writer.hold, try)
}

// enterWrite is the write lock's enter: re-entry, a new place in line, or no
// way for a reader, who would wait for himself.
func (rw *InterProcessReadWriteLock) enterWrite(ctx context.Context, try bool) (*Lease, error) {
	reads, writes := rw.read.line, rw.write.line
	reader, reading := reads.carried(ctx)
	if _, writing := writes.carried(ctx); writing || !reading {
		return writes.enter(ctx, try)
	}
	if err := reader.live(ctx); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: the context's lease reads, release it first: %s", ErrDeadlock, reader.hold.path)
}
