package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonzk/baton/framework"
)

// A RevokeOption changes one [Revoke]. With any of them the request has a form
// that only this package's holders understand: Curator's listeners hear
// nothing.
type RevokeOption func(*revocation)

// WithReason tells the holder why, in up to 1024 bytes.
func WithReason(reason string) RevokeOption {
	return func(r *revocation) {
		if len(reason) > reasonMax {
			r.refuse(fmt.Errorf("a reason of %d bytes, the limit is %d", len(reason), reasonMax))
		}
		r.Reason = reason
	}
}

// WithDeadline tells the holder how long it may take to give the lock up, in
// whole milliseconds, rounded up.
func WithDeadline(d time.Duration) RevokeOption {
	return func(r *revocation) {
		if d <= 0 || d > grantedMax {
			r.refuse(fmt.Errorf("a deadline of %v", d))
			return
		}
		r.granted = d
		r.Granted = int64((d + time.Millisecond - 1) / time.Millisecond)
	}
}

// WithForce makes [Revoke] wait until the node is gone and, once the time of
// [WithDeadline] has passed, without which it is refused, delete it. The time
// is counted by this process's own clock, from when a server took the request
// in.
//
// A holder's lease is then lost, and what it was about to do may still happen:
// only a resource that checks the token is safe from it. A contender that waits
// only loses its place, and stands in line again at the end.
func WithForce() RevokeOption {
	return func(r *revocation) { r.Force = true }
}

// Revoke asks the contender whose node is at path, a [Participant.Path], to
// give its lock up. See [WithRevocationListener] and [EndWhenRevoked] for what
// the holder can do, and [Lease.Revocation] for what it learns. A contender that
// still waits hears of it once it holds the lock. A later request takes the
// place of an earlier one, and is heard too.
//
// Without options it is what Curator's Revoker does: it replaces the node's
// data by __REVOKE__, so that what the contender says of itself is gone. With
// options the request carries that along; [Participant.Data] still has it.
//
// Revoke blocks until a server has taken the request in, ctx is done, or the
// client's retries are used up. [WithForce] makes it wait for the node to go,
// for as long as ctx allows, whatever becomes of connection and session in
// between; when it has gone, given up or taken away, the error is nil. The
// error wraps [framework.ErrNoNode] if there is nobody to ask.
func Revoke(ctx context.Context, client *framework.Client, path string, opts ...RevokeOption) error {
	r := &revocation{client: client, path: path}
	err := apply(r, opts)
	if err == nil {
		err = r.validate()
	}
	if err != nil {
		return fmt.Errorf("recipes: revoke %s: %w", path, err)
	}
	if err := r.run(ctx, len(opts) == 0); err != nil {
		return fmt.Errorf("recipes: revoke %s: %w", path, withContext(ctx, err))
	}
	return nil
}

// A revocation is one Revoke under way.
type revocation struct {
	request
	client  *framework.Client
	path    string
	granted time.Duration
	err     error
}

func (r *revocation) refuse(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %w", framework.ErrInvalidOption, err)
	}
}

func (r *revocation) validate() error {
	if r.client == nil {
		return fmt.Errorf("%w: client is nil", framework.ErrInvalidOption)
	}
	if err := framework.ValidatePath(r.path); err != nil {
		return err
	}
	if _, name := framework.SplitPath(r.path); !isContender(name) {
		return fmt.Errorf("%w: not a contender's node, want a Participant.Path", framework.ErrInvalidPath)
	}
	if r.Force && r.granted == 0 {
		r.refuse(errors.New("WithForce needs WithDeadline"))
	}
	return r.err
}

func (r *revocation) run(ctx context.Context, plain bool) error {
	if plain {
		_, err := r.client.Set(ctx, r.path, revokeRequest, framework.AnyVersion, framework.Idempotent())
		return err
	}
	node, err := r.ask(ctx)
	if err != nil || !r.Force {
		return err
	}
	return r.takeAway(ctx, node, time.Now().Add(r.granted))
}

// ask writes the request and returns the node's metadata. What others write
// in between is not overwritten unread, and a try whose reply was lost is not
// heard twice.
func (r *revocation) ask(ctx context.Context) (framework.Stat, error) {
	r.By = string(hostAndPID())
	for {
		version, err := r.read(ctx)
		if err != nil {
			return framework.Stat{}, err
		}
		data, err := r.encode()
		if err != nil {
			return framework.Stat{}, err
		}
		node, err := r.client.Set(ctx, r.path, data, version, framework.Idempotent())
		if !says(ctx, err, framework.ErrBadVersion) {
			return node, err
		}
	}
}

// read puts what the contender says of itself into the request, if that may
// be read and is not too large.
func (r *revocation) read(ctx context.Context) (version int32, err error) {
	data, stat, err := r.client.Get(ctx, r.path)
	if says(ctx, err, framework.ErrNoAuth) {
		return framework.AnyVersion, nil
	}
	r.Data = nil
	if before, ok := parseRequest(data); ok {
		r.Data = before.Data
	} else if len(data) <= carriedMax {
		r.Data = append([]byte{}, data...) // not nil: nothing is something to say
	}
	return stat.Version, err
}

// takeAway returns when the node is gone, which it sees to after the deadline.
// It is that very node, whatever its name: a node that was made later has
// another czxid, and at first another version.
func (r *revocation) takeAway(ctx context.Context, node framework.Stat, deadline time.Time) error {
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var pauses pauses
	for {
		gone, err := false, error(nil)
		if waiting.Err() == nil {
			gone, err = r.outwait(waiting, &node)
		} else {
			gone, err = r.remove(ctx, &node)
		}
		switch {
		case gone:
			return nil
		case ctx.Err() != nil:
			return ended(ctx)
		case err == nil || waiting.Err() != nil && errors.Is(err, waiting.Err()):
		case !isOutage(err):
			return err
		default:
			pauses.pause(ctx)
		}
	}
}

// outwait waits until the node has gone or changed, and reports whether it
// has gone.
func (r *revocation) outwait(ctx context.Context, node *framework.Stat) (gone bool, err error) {
	now, watch, err := r.client.ExistsW(ctx, r.path)
	if err != nil {
		return false, err
	}
	defer watch.Stop()
	if now.Czxid != node.Czxid {
		return r.confirm(ctx, node)
	}
	*node = now
	select {
	case ev := <-watch.Event():
		return ev.Type == framework.EventDeleted, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// confirm reports whether the node has gone for every server: the one that
// says so may be behind, since a new session knows nothing of what the last
// one has seen.
func (r *revocation) confirm(ctx context.Context, node *framework.Stat) (gone bool, err error) {
	if err := r.client.Sync(ctx, r.path); err != nil {
		return false, err
	}
	now, err := r.client.Exists(ctx, r.path)
	if says(ctx, err, framework.ErrNoNode) {
		return true, nil
	}
	return err == nil && now.Czxid != node.Czxid, err
}

// remove deletes the node if it is as it was seen last; if it is not, it is
// seen anew.
func (r *revocation) remove(ctx context.Context, node *framework.Stat) (gone bool, err error) {
	err = r.client.Delete(ctx, r.path, node.Version, framework.Idempotent())
	switch {
	case err == nil:
		r.client.Logger().Info("took a lock away from its holder", "node", r.path, "reason", r.Reason)
		return true, nil
	case says(ctx, err, framework.ErrNoNode):
		return true, nil
	case !says(ctx, err, framework.ErrBadVersion):
		return false, err
	}
	now, err := r.client.Exists(ctx, r.path)
	if says(ctx, err, framework.ErrNoNode) || err == nil && now.Czxid != node.Czxid {
		return r.confirm(ctx, node)
	}
	if err == nil {
		*node = now
	}
	return false, err
}
