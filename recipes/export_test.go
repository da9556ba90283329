package recipes

import (
	"context"
	"time"
)

// WithWall sets the wall clock of the worker numbers of a root, and of the
// generators that use them.
func WithWall(wall func() time.Time) WorkerOption {
	return func(s *workerSettings) { s.wall = wall }
}

// Twin returns what a copy of this process has of the claim.
func (id *WorkerID) Twin() *WorkerID {
	return &WorkerID{Lease: id.Lease, workers: id.workers, number: id.number, reserved: id.reservation()}
}

// Extend reserves a window from now.
func (id *WorkerID) Extend(ctx context.Context) error { return id.extend(ctx, 0) }
