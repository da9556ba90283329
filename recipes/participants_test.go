package recipes_test

import (
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
	"github.com/batonzk/baton/recipes"
)

func TestParticipants(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		observer := recipes.NewInterProcessMutex(w.client(), root)
		ps, err := observer.Participants(w.ctx)
		if err != nil || ps == nil || len(ps) != 0 {
			t.Errorf("of a path that does not exist: %v, %v, want an empty slice", ps, err)
		}
		c := w.client()
		w.put(c, root+"/workid")
		w.put(c, root+"/lock-0000000000")
		w.put(c, root+"/0000000001")
		began := time.Now()
		lease := w.acquire(w.mutex(recipes.WithData([]byte("first"))))
		time.Sleep(soon)
		as := w.queue(w.mutex(recipes.WithData([]byte("second"))), w.mutex(recipes.WithData(nil)))

		ps, err = observer.Participants(w.ctx)
		if err != nil || len(ps) != 4 {
			t.Fatalf("Participants: %+v, %v, want 4", ps, err)
		}
		want := []recipes.Participant{
			{Name: "lock-0000000000", Dead: true},
			{Data: []byte("first"), Holder: true},
			{Data: []byte("second")},
			{},
		}
		for i, p := range ps {
			if string(p.Data) != string(want[i].Data) || p.Holder != want[i].Holder || p.Dead != want[i].Dead ||
				(want[i].Name != "" && p.Name != want[i].Name) {
				t.Errorf("participant %d is %+v, want %+v", i, p, want[i])
			}
			if p.Path != root+"/"+p.Name || (p.SessionID == 0) != p.Dead {
				t.Errorf("participant %d has path %s and session %#x", i, p.Path, p.SessionID)
			}
			if i > 0 && p.Token <= ps[i-1].Token {
				t.Errorf("participant %d has token %#x", i, p.Token)
			}
		}
		holder := ps[1]
		if holder.Path != lease.Path() || holder.Token != lease.Token() || holder.SessionID != lease.Session().ID() {
			t.Errorf("the holder is %+v, its lease has path %s, token %#x", holder, lease.Path(), lease.Token())
		}
		if since := holder.Since.Sub(began); since < 0 || since > soon/2 {
			t.Errorf("the holder is there since %v after it came", since)
		}
		if waits := ps[2].Since.Sub(holder.Since); waits < soon {
			t.Errorf("the second came %v after the first, want at least %v", waits, soon)
		}
		w.release(lease)
		for _, a := range as {
			w.release(w.wait(a))
		}
		ps, err = observer.Participants(w.ctx)
		if err != nil || len(ps) != 1 || ps[0].Holder {
			t.Errorf("of an idle lock: %+v, %v, want the dead one", ps, err)
		}
	})
}

// Participants leave while they are read.
func TestParticipantsLeaveMeanwhile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		c := w.client()
		lease := w.acquire(w.mutex())
		waiting := w.queue(w.mutex())[0]
		defer w.srv.OnRequest(of(c, op("getData")).once(func() {
			w.release(lease)
			w.release(w.wait(waiting))
		}))()
		ps, err := recipes.NewInterProcessMutex(c, root).Participants(w.ctx)
		if err != nil || len(ps) > 1 {
			t.Errorf("Participants: %+v, %v", ps, err)
		}
	})
}

func TestParticipantsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w *world) {
		w.put(w.client(), root, framework.WithACL(framework.WorldACL(framework.PermDelete)...))
		ps, err := w.mutex().Participants(w.ctx)
		wantErr(t, "Participants", err, framework.ErrNoAuth)
		if ps != nil {
			t.Errorf("Participants returned %v with an error", ps)
		}
	})
}
