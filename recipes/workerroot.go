package recipes

import (
	"context"
	"fmt"
	"time"
)

// layoutText is a layout as the root of worker numbers holds it: all of its
// generators must have it.
type layoutText struct {
	Time     int    `json:"time"`
	Worker   int    `json:"worker"`
	Sequence int    `json:"sequence"`
	Unit     string `json:"unit"`
	Epoch    string `json:"epoch"`
}

func textOf(l Layout) layoutText {
	return layoutText{
		Time: l.TimeBits, Worker: l.WorkerBits, Sequence: l.SequenceBits,
		Unit: l.Unit.String(), Epoch: l.Epoch.UTC().Format(time.RFC3339Nano),
	}
}

func (t layoutText) layout() (l Layout, err error) {
	l = Layout{TimeBits: t.Time, WorkerBits: t.Worker, SequenceBits: t.Sequence}
	if l.Unit, err = time.ParseDuration(t.Unit); err != nil {
		return Layout{}, err
	}
	if l.Epoch, err = time.Parse(time.RFC3339Nano, t.Epoch); err != nil {
		return Layout{}, err
	}
	return l, l.Validate()
}

// The nodes in the root.
const (
	slotsNode  = "slots"
	claimsNode = "claims"
	floorNode  = "floor"
)

func isWorkerNode(child string) bool {
	return child == slotsNode || child == claimsNode || child == floorNode
}

// enterRoot sees to it that the root is one of worker numbers with this
// layout: it makes it if there is none, and refuses one that is something else.
func (w *WorkerIDs) enterRoot(ctx context.Context) error {
	mine := w.settings.layout
	state, err := w.root.read(ctx, textOf(mine))
	if err != nil {
		return err
	}
	theirs, err := w.decodeLayout(state)
	if err != nil {
		return err
	}
	if !theirs.Equal(mine) {
		return fmt.Errorf("%w: the root is for IDs of %v, and this process's are of %v: give it WithLayout, or another root", ErrOtherLayout, theirs, mine)
	}
	return nil
}

// decodeLayout reads the layout that the root holds.
func (w *WorkerIDs) decodeLayout(state rootState) (Layout, error) {
	var text layoutText
	if err := w.root.decode(state.data, &text); err != nil {
		return Layout{}, err
	}
	l, err := text.layout()
	if err != nil {
		return Layout{}, w.root.corrupt(state.data, err.Error())
	}
	return l, nil
}
