package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/batonzk/baton/framework"
)

// layoutText is what the root of worker numbers holds: what it is the root of,
// and the layout that all of its generators must have.
type layoutText struct {
	Type     string `json:"type"`
	Time     int    `json:"time"`
	Worker   int    `json:"worker"`
	Sequence int    `json:"sequence"`
	Unit     string `json:"unit"`
	Epoch    string `json:"epoch"`
}

const workerRootType = "worker-ids"

func encodeLayout(l Layout) []byte {
	data, err := json.Marshal(layoutText{
		Type: workerRootType, Time: l.TimeBits, Worker: l.WorkerBits, Sequence: l.SequenceBits,
		Unit: l.Unit.String(), Epoch: l.Epoch.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	return data
}

func decodeLayout(data []byte) (l Layout, err error) {
	var text layoutText
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(&text)
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = fmt.Errorf("there is more behind it")
	}
	if err == nil && text.Type != workerRootType {
		err = fmt.Errorf("its type is %q", text.Type)
	}
	l = Layout{TimeBits: text.Time, WorkerBits: text.Worker, SequenceBits: text.Sequence}
	if err == nil {
		l.Unit, err = time.ParseDuration(text.Unit)
	}
	if err == nil {
		l.Epoch, err = time.Parse(time.RFC3339Nano, text.Epoch)
	}
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Layout{}, fmt.Errorf("it holds %s, which is no layout of IDs: %w", quote(data), err)
	}
	return l, nil
}

// enterRoot sees to it that the root is one of worker numbers with this
// layout: it makes the root what it is to be if it says nothing yet, and refuses
// one that says something else. Children do not matter.
func (w *WorkerIDs) enterRoot(ctx context.Context) error {
	mine := encodeLayout(w.settings.layout)
	for range 3 { // somebody else may be making it
		data, stat, err := w.client.Get(ctx, w.root)
		switch {
		case says(ctx, err, framework.ErrNoNode):
			_, err = w.client.Create(ctx, w.root, mine, framework.WithParents(), framework.Idempotent())
		case err == nil && len(data) == 0:
			_, err = w.client.Set(ctx, w.root, mine, stat.Version, framework.Idempotent())
		case err == nil:
			return w.checkLayout(data)
		}
		if says(ctx, err, framework.ErrNodeExists) || says(ctx, err, framework.ErrBadVersion) || says(ctx, err, framework.ErrNoNode) {
			continue
		}
		return err
	}
	return fmt.Errorf("%w: others keep changing %s", errAgain, w.root)
}

func (w *WorkerIDs) checkLayout(data []byte) error {
	theirs, err := decodeLayout(data)
	if err != nil {
		return err
	}
	if mine := w.settings.layout; !theirs.Equal(mine) {
		return fmt.Errorf("%w: it is for IDs of %v, and this process's are of %v", ErrOtherLayout, theirs, mine)
	}
	return nil
}
