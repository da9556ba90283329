package recipes

import "time"

// WithWall sets the wall clock of the worker numbers of a root, and of the
// generators that use them.
func WithWall(wall func() time.Time) WorkerOption {
	return func(s *workerSettings) { s.wall = wall }
}
