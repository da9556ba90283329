//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/batonzk/baton/recipes"
)

// A goTurns is the verb contend, as one user does it.
type goTurns struct {
	peer   *goPeer
	id     string
	sides  []*goLock // one, or those of a read-write lock, read first
	random *rand.Rand

	most       int // permits
	downgrades bool
}

// contend takes a number of turns, like those of the other peers.
func (s *goPeer) contend(id, number, seed string, how ...string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	start, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	t := &goTurns{peer: s, id: id, sides: s.sides(id), random: rand.New(rand.NewPCG(start, 0)), most: 1}
	if len(t.sides) == 0 {
		return fmt.Errorf("%w: contend %q", errUsage, id)
	}
	switch {
	case len(how) == 0:
	case how[0] == "downgrade":
		t.downgrades = true
	default:
		if t.most, err = strconv.Atoi(how[0]); err != nil {
			return err
		}
	}
	for taken := 0; taken < n; {
		inside, err := t.turn()
		if err != nil {
			return err
		}
		if inside {
			taken++
			t.pause()
		}
	}
	return nil
}

// turn is one try to get the lock, and one turn if it is got.
func (t *goTurns) turn() (inside bool, err error) {
	lock := t.sides[t.random.IntN(len(t.sides))]
	wait := time.Duration(-1)
	if t.random.IntN(4) == 0 {
		wait = time.Duration(t.random.IntN(8)) * time.Millisecond
	}
	permits := 1 + t.random.IntN(t.most)
	asked := Monotonic()
	h, err := lock.get(context.Background(), wait, permits)
	switch {
	case errors.Is(err, recipes.ErrHeld), wait > 0 && errors.Is(err, context.DeadlineExceeded):
		return false, nil
	case err != nil:
		return false, err
	}
	t.enter(lock, h, asked)
	t.stay()
	if t.downgrades && lock.alone && t.random.IntN(3) == 0 {
		h, err = t.downgrade(h)
	}
	t.peer.say("*", leaveEvent, t.id)
	return true, errors.Join(err, h.release())
}

// downgrade goes on as a reader. If it cannot, it stays what it is.
func (t *goTurns) downgrade(write *held) (*held, error) {
	asked := Monotonic()
	read, err := t.sides[0].get(write.ctx, -1, 1)
	if err != nil {
		return write, err
	}
	t.peer.say("*", leaveEvent, t.id)
	t.enter(t.sides[0], read, asked)
	err = write.release()
	t.stay()
	return read, err
}

func (t *goTurns) enter(lock *goLock, h *held, asked time.Duration) {
	permits := len(h.leases)
	if lock.alone {
		permits = 0
	}
	t.peer.say("*", enterEvent, t.id, strconv.Itoa(permits), h.leases[0].Path(),
		strconv.FormatInt(h.leases[0].Token(), 10), strconv.FormatInt(int64(asked), 10))
}

func (t *goTurns) pause() { time.Sleep(time.Duration(t.random.IntN(500_000))) }

// stay is inside, with permits for so long that they run out.
func (t *goTurns) stay() {
	longest := 500_000
	if t.most > 1 {
		longest = 20_000_000
	}
	time.Sleep(time.Duration(t.random.IntN(longest)))
}
