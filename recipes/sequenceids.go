package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/retry"
)

// SequenceIDs hand out the natural numbers from 0 on, among all processes that
// use the same path of the same ensemble. Each number is that of a sequential
// node, which is removed again. No number is given twice, and none is lower
// than one that any process had got before it was asked for. Some are left out:
// when a reply is lost, a context ends, or an epoch does, see below.
//
// ZooKeeper numbers the children of a node with 31 bits. So a number has an
// epoch above them, and each epoch has a node of its own below the path, in
// which the numbers' nodes are made. The present epoch is kept as the path's data.
// The next one begins, for everybody at once, when the servers' counter has
// come to its end, or when the epoch's node turns out to have been deleted,
// made again or set back. The path itself must not be deleted: who deletes it
// deletes all that was known of the numbers.
//
// A number takes two round trips. [BlockIDs] are for those who need many.
//
// It is safe for concurrent use, and holds nothing that must be given back.
type SequenceIDs struct {
	root generatorRoot
	err  error // why it cannot be used

	mu    sync.Mutex
	epoch int64 // as last heard of, noEpoch before
	last  int64 // the largest number handed out here, -1 if none
}

const (
	noEpoch      = -1
	epochShift   = 31
	lastEpoch    = 1<<(63-epochShift) - 1
	numberLabel  = "id-"
	epochVersion = 1 // of an epoch's node while the epoch lasts
)

// sequenceState is what the root of SequenceIDs holds.
type sequenceState struct {
	Epoch int64 `json:"epoch"` // noEpoch if there was none yet
}

// NewSequenceIDs returns the generator at path, which is made when it is used
// first; it must be no lock's path, nor lie in one. It does no I/O. A malformed
// path is the error of every call of Next.
func NewSequenceIDs(client *framework.Client, path string) *SequenceIDs {
	s := &SequenceIDs{
		root:  generatorRoot{client: client, path: path, t: sequenceRoot, owns: isEpochNode},
		epoch: noEpoch,
		last:  -1,
	}
	if err := validateRoot(client, path); err != nil {
		s.err = fmt.Errorf("recipes: sequence IDs %q: %w", path, err)
	}
	return s
}

// Path returns the path as it was given.
func (s *SequenceIDs) Path() string { return s.root.path }

// Next returns the next number. It blocks until a server has given it one: a
// time without servers does not end the call, only ctx does, and an answer that
// makes no sense to ask again, such as [framework.ErrNoAuth]. [ErrWrongRoot]
// and [ErrCorrupt] say what is wrong with the path; [framework.ErrNoNode] says
// that somebody has deleted it, [ErrExhausted] that 2^63 numbers were given.
func (s *SequenceIDs) Next(ctx context.Context) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.next(ctx)
	if err != nil {
		return 0, fmt.Errorf("recipes: next of %s: %w", s.root.path, bare{withContext(ctx, err)})
	}
	return n, nil
}

func (s *SequenceIDs) next(ctx context.Context) (int64, error) {
	s.mu.Lock()
	floor := s.last
	s.mu.Unlock()
	var pauses pauses
	for ctx.Err() == nil {
		n, err := s.draw(ctx, floor)
		switch {
		case err == nil:
			s.mu.Lock()
			s.last = max(s.last, n)
			s.mu.Unlock()
			return n, nil
		case errors.Is(err, errAgain): // with another epoch
		case comesBack(ctx, err):
			pauses.pause(ctx)
		default:
			return 0, err
		}
	}
	return 0, waited(ctx, s.root.client)
}

// comesBack reports whether err is of a time without servers, or of an outcome
// that is unknown, after which one who can do without a number tries anew.
func comesBack(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, framework.ErrAuthFailed) {
		return false
	}
	return framework.IsRetryable(err) || framework.IsUnknown(err) || errors.Is(err, framework.ErrSessionLost)
}

// draw makes a node and returns its number. The error is errAgain if the epoch
// has turned out to be over.
func (s *SequenceIDs) draw(ctx context.Context, floor int64) (int64, error) {
	epoch, err := s.present(ctx)
	if err != nil {
		return 0, err
	}
	made, err := s.create(ctx, epoch)
	if says(ctx, err, framework.ErrNoNode) || says(ctx, err, framework.ErrBadVersion) {
		return 0, s.turn(ctx, epoch+1)
	}
	if err != nil {
		return 0, err
	}
	if made == "" { // its reply was lost, and somebody has deleted it since
		return 0, errAgain
	}
	s.remove(ctx, made)
	_, name := framework.SplitPath(made)
	c, ok := parseContender(numberLabel, name)
	if !ok {
		return 0, fmt.Errorf("the server named a node %q, which is no %s<number>", made, numberLabel)
	}
	n := epoch<<epochShift | int64(c.seq)
	switch {
	case c.seq < 0 || c.seq == math.MaxInt32: // from 3.6 on the counter stays there
		return 0, s.turn(ctx, epoch+1)
	case n <= floor:
		s.root.client.Logger().Warn("a counter has gone back", "generator", s.root.path, "number", n, "had", floor)
		return 0, s.turn(ctx, floor>>epochShift+1)
	}
	return n, nil
}

// create makes a node of the epoch, if that has not ended.
func (s *SequenceIDs) create(ctx context.Context, epoch int64) (path string, err error) {
	dir := s.dir(epoch)
	results, err := s.root.client.Multi(ctx,
		framework.CheckOp(dir, epochVersion),
		framework.CreateOp(framework.JoinPath(dir, numberLabel), hostAndPID(), framework.EphemeralSequential).Protected())
	if err != nil {
		return "", err
	}
	return results[1].Path, nil
}

// remove deletes a number's node. If that takes long it goes on in the
// background; at the latest the node goes with its session.
func (s *SequenceIDs) remove(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(retry.Fresh(ctx), leaveTime)
	defer cancel()
	err := s.root.client.Delete(ctx, path, framework.AnyVersion, framework.Guaranteed())
	if says(ctx, err, framework.ErrNoAuth) {
		s.root.client.Logger().Warn("a number's node cannot be deleted: it stays until the session ends", "node", path, "err", err)
	}
}

// present returns the present epoch, as far as is known here.
func (s *SequenceIDs) present(ctx context.Context) (int64, error) {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	if epoch != noEpoch {
		return epoch, nil
	}
	state, _, err := s.read(ctx)
	if err == nil && state.Epoch == noEpoch {
		err = s.turn(ctx, 0)
	}
	return state.Epoch, err
}

// read reads the root, and remembers the epoch.
func (s *SequenceIDs) read(ctx context.Context) (state sequenceState, version int32, err error) {
	first := sequenceState{Epoch: noEpoch}
	read, err := s.root.read(ctx, first)
	if err != nil {
		return state, 0, err
	}
	if err := s.root.decode(read.data, &state); err != nil {
		return state, 0, err
	}
	if state.Epoch < noEpoch || state.Epoch > lastEpoch {
		return state, 0, s.root.corrupt(read.data, "there is no such epoch")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = max(s.epoch, state.Epoch)
	return state, read.version, nil
}

// turn sees to it that an epoch lasts that is no older than least. It returns
// errAgain if one does, to be tried with.
func (s *SequenceIDs) turn(ctx context.Context, least int64) error {
	state, version, err := s.read(ctx)
	if err != nil {
		return err
	}
	if state.Epoch >= least {
		return errAgain
	}
	epochs, err := s.epochs(ctx)
	if err != nil {
		return err
	}
	next := max(least, state.Epoch+1)
	ops := []framework.Op{{}} // the root's, below
	for _, old := range epochs {
		next = max(next, old+1)
		ops = append(ops, framework.SetOp(s.dir(old), nil, framework.AnyVersion))
	}
	if next > lastEpoch {
		return ErrExhausted
	}
	dir := s.dir(next)
	ops[0] = framework.SetOp(s.root.path, s.root.encode(sequenceState{Epoch: next}), version)
	ops = append(ops, framework.CreateOp(dir, nil, framework.Persistent), framework.SetOp(dir, nil, 0))
	_, err = s.root.client.Multi(ctx, ops...)
	switch {
	case err == nil:
		s.root.client.Logger().Info("a new epoch of numbers begins", "generator", s.root.path, "epoch", next)
		s.sweep(ctx, epochs)
	case says(ctx, err, framework.ErrBadVersion), says(ctx, err, framework.ErrNoNode), says(ctx, err, framework.ErrNodeExists):
		// Somebody else was first; what has changed the next read shows.
	default:
		return err
	}
	_, _, err = s.read(ctx)
	if err == nil {
		err = errAgain
	}
	return err
}

// epochs returns the epochs that have a node.
func (s *SequenceIDs) epochs(ctx context.Context) (epochs []int64, err error) {
	names, _, err := s.root.client.Children(ctx, s.root.path)
	for _, name := range names {
		if epoch, ok := parseEpoch(name); ok {
			epochs = append(epochs, epoch)
		}
	}
	return epochs, err
}

// sweep removes the nodes of epochs that are over. One in which there are still
// nodes of numbers stays until the next epoch.
func (s *SequenceIDs) sweep(ctx context.Context, epochs []int64) {
	for _, old := range epochs {
		_ = s.root.client.Delete(ctx, s.dir(old), framework.AnyVersion)
	}
}

// dir returns the path of an epoch's node.
func (s *SequenceIDs) dir(epoch int64) string {
	return framework.JoinPath(s.root.path, fmt.Sprintf("%010d", epoch))
}

// parseEpoch reads the name of an epoch's node.
func parseEpoch(name string) (int64, bool) {
	var epoch int64
	if len(name) != len("0000000000") {
		return 0, false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
		epoch = epoch*10 + int64(c-'0')
	}
	return epoch, epoch <= lastEpoch
}

func isEpochNode(name string) bool {
	_, ok := parseEpoch(name)
	return ok
}
