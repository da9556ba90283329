package recipes

import (
	"fmt"
	"math"
	"time"

	"github.com/batonzk/baton/framework"
)

// A Layout says how the bits of an [ID] are divided, from the highest down:
// one that is always zero, those left over, the time, the worker, the
// sequence. All generators that are to be unique among one another must have
// the same layout.
type Layout struct {
	TimeBits     int           // units since the epoch
	WorkerBits   int           // the worker's number
	SequenceBits int           // IDs of one worker within one unit
	Unit         time.Duration // of time: whole milliseconds
	Epoch        time.Time     // when time is zero: to the millisecond
}

// DefaultLayout returns the field's usual division: 41 bits of milliseconds
// since 2025, 10 of workers, 12 of sequence. That is 4,096,000 IDs a second
// for each of 1024 workers, until September 2094.
func DefaultLayout() Layout {
	return Layout{TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Unit: time.Millisecond, Epoch: idEpoch}
}

// JavaScriptLayout returns a division of the 53 bits that a JavaScript number
// holds exactly: 38 bits of hundredths of a second since 2025, 8 of workers, 7
// of sequence. That is 12,800 IDs a second for each of 256 workers, until
// February 2112.
func JavaScriptLayout() Layout {
	return Layout{TimeBits: 38, WorkerBits: 8, SequenceBits: 7, Unit: 10 * time.Millisecond, Epoch: idEpoch}
}

var idEpoch = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// lastYear is the last whose times all of Go's text forms can write.
const lastYear = 9999

// Validate returns an error that wraps [framework.ErrInvalidOption] and names
// the value that makes no sense.
func (l Layout) Validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: layout: %s", framework.ErrInvalidOption, fmt.Sprintf(format, args...))
	}
	sum := l.TimeBits + l.WorkerBits + l.SequenceBits
	switch {
	case l.TimeBits < 1 || l.TimeBits > 63:
		return refuse("%d bits of time", l.TimeBits)
	case l.WorkerBits < 0 || l.WorkerBits > 31:
		return refuse("%d bits of worker", l.WorkerBits)
	case l.SequenceBits < 0 || l.SequenceBits > 62:
		return refuse("%d bits of sequence", l.SequenceBits)
	case sum > 63:
		return refuse("%d+%d+%d bits are more than 63", l.TimeBits, l.WorkerBits, l.SequenceBits)
	case l.Unit < time.Millisecond || l.Unit%time.Millisecond != 0:
		return refuse("a unit of %v, want whole milliseconds", l.Unit)
	case l.Epoch.IsZero():
		return refuse("no epoch")
	case l.Epoch.Nanosecond()%int(time.Millisecond) != 0:
		return refuse("an epoch of %v, want whole milliseconds", l.Epoch)
	case l.Epoch.Year() < 1 || l.Epoch.Year() > lastYear:
		return refuse("an epoch of %v", l.Epoch)
	}
	last := time.Date(lastYear+1, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	if l.ticks() > (last-l.Epoch.UnixMilli())/l.Unit.Milliseconds() {
		return refuse("%d bits of %v reach beyond the year %d", l.TimeBits, l.Unit, lastYear)
	}
	return nil
}

// Equal reports whether two layouts mean the same.
func (l Layout) Equal(other Layout) bool {
	return l.TimeBits == other.TimeBits && l.WorkerBits == other.WorkerBits &&
		l.SequenceBits == other.SequenceBits && l.Unit == other.Unit && l.Epoch.Equal(other.Epoch)
}

// String returns the layout in short, such as 1·41·10·12 of 1ms since
// 2025-01-01T00:00:00Z.
func (l Layout) String() string {
	return fmt.Sprintf("%d·%d·%d·%d of %v since %s", 64-l.TimeBits-l.WorkerBits-l.SequenceBits,
		l.TimeBits, l.WorkerBits, l.SequenceBits, l.Unit, l.Epoch.UTC().Format(time.RFC3339Nano))
}

// EndOfLife returns the first moment that the layout has no number for.
func (l Layout) EndOfLife() time.Time { return l.at(l.ticks()) }

// Workers returns how many workers the layout has numbers for.
func (l Layout) Workers() int { return 1 << l.WorkerBits }

// Describe returns what an ID says, in words, for whoever reads a log or a
// ticket.
func (l Layout) Describe(id ID) string {
	return fmt.Sprintf("%s: %s, worker %d, sequence %d",
		id, id.Time(l).Format(time.RFC3339Nano), id.Worker(l), id.Sequence(l))
}

// ticks returns how many units of time there are.
func (l Layout) ticks() int64 {
	if l.TimeBits == 63 {
		return math.MaxInt64
	}
	return 1 << l.TimeBits
}

// tick returns the unit in which a moment lies that is given in milliseconds
// since 1970. It is negative before the epoch.
func (l Layout) tick(ms int64) int64 {
	since, unit := ms-l.Epoch.UnixMilli(), l.Unit.Milliseconds()
	if since < 0 {
		return -((-since + unit - 1) / unit)
	}
	return since / unit
}

// at returns when a unit of time begins.
func (l Layout) at(tick int64) time.Time {
	return time.UnixMilli(l.Epoch.UnixMilli() + tick*l.Unit.Milliseconds()).UTC()
}

// span returns how many units a duration takes, the last begun one counted.
func (l Layout) span(d time.Duration) int64 { return int64((d + l.Unit - 1) / l.Unit) }

// id puts an ID together. stamp is the time and the sequence below it.
func (l Layout) id(stamp int64, worker int) ID {
	tick, sequence := stamp>>l.SequenceBits, stamp&(1<<l.SequenceBits-1)
	return ID(tick<<(l.WorkerBits+l.SequenceBits) | int64(worker)<<l.SequenceBits | sequence)
}
