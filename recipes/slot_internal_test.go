package recipes

import (
	"hash/maphash"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSlotEncoding(t *testing.T) {
	t.Parallel()
	s := slot{high: 1796100000123, owner: "web-3:4711", generation: 7, write: "a1b2"}
	const text = `{"high":"2026-12-01T04:00:00.123Z","owner":"web-3:4711","generation":7,"write":"a1b2"}`
	s.high = 1796097600123
	if got := string(s.encode()); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := slot{
			high:       rapid.Int64Range(0, 253402300799999).Draw(t, "high"),
			owner:      strings.ToValidUTF8(rapid.String().Draw(t, "owner"), "?"),
			generation: rapid.Int64Range(1, 1<<62).Draw(t, "generation"),
			write:      rapid.StringMatching("[0-9a-f]{1,32}").Draw(t, "write"),
		}
		if got, err := decodeSlot(s.encode()); err != nil || got != s {
			t.Errorf("%+v, %v, want %+v", got, err, s)
		}
	})
}

// What is not understood in full is no slot.
func TestSlotRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "7", "null", "web-3:4711", "{}", "[]", `{"high":1796097600123}`,
		`{"high":"2026-12-01T04:00:00.123Z"}`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":0,"write":"b"}`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":1,"write":""}`,
		`{"high":"2026-12-01 04:00","owner":"a","generation":1,"write":"b"}`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":1,"write":"b","more":1}`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":1,"write":"b"} x`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":1,"write":"b"}{}`,
		`{"high":"2026-12-01T04:00:00.123Z","owner":"a","generation":1,"write":"b"`,
	} {
		if s, err := decodeSlot([]byte(text)); err == nil || !strings.Contains(err.Error(), "no worker's slot") {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

// The model: some claimants, one slot, and servers that carry out what they are
// sent at any later time or never, and may lose the reply. The claimants decide
// by the functions of the real thing. A claimant's clock says anything at any
// time; he may be paused anywhere, for that is another's step; his session may
// expire at any step, and he knows before the servers do, by his deadline. All
// interleavings are visited.

const modelWindow = 2

// modelBounds limit what the claimants do.
type modelBounds struct {
	claimants int
	claims    int     // that each may begin
	writes    int     // that each may send, extensions included
	clocks    []int64 // what a clock may say
	late      bool    // a write may be carried out after its writer has read the slot again
}

// modelMessage is a write under way.
type modelMessage struct {
	r      reservation
	claims bool // else it extends
	done   bool // carried out, or lost before
	worked bool
}

type modelPhase int

const (
	modelIdle   modelPhase = iota
	modelRead              // has read the slot
	modelListed            // and then has seen no living owner
	modelSent              // has sent a write
	modelAmbiguous
	modelOwner
)

const modelSpans = 2

type modelClaimant struct {
	phase   modelPhase
	view    slotView
	held    reservation // the last that is known to be committed
	pending modelMessage
	late    modelMessage // given up on, and perhaps still on its way
	live    bool         // believes that his mark is there
	claims  int
	writes  int
	spans   [modelSpans][2]int64 // all that he has ever believed to be his, by claim
}

type modelWorld struct {
	node  slotView
	marks [3]bool
	procs [3]modelClaimant
}

// A modelFault takes one mechanism away, to see that the model misses it.
type modelFault int

const (
	modelSound modelFault = iota
	modelAnyVersion
	modelNowOnly
	modelAssumeDone
	modelListFirst
)

func (w *modelWorld) carryOut(i int, m *modelMessage, f modelFault) {
	m.done = true
	m.worked = w.node.version == m.r.over || f == modelAnyVersion
	if !m.worked {
		return
	}
	if m.claims {
		w.marks[i] = true
	}
	version := m.r.version()
	if f == modelAnyVersion {
		version = max(w.node.version, -1) + 1
	}
	w.node = slotView{slot: m.r.slot, version: version}
}

// committed lets claimant i believe what his write has reserved.
func (c *modelClaimant) committed() {
	c.held, c.phase = c.pending.r, modelOwner
	if c.pending.claims {
		c.live = true
	}
	c.spans[c.claims-1] = [2]int64{c.held.from, c.held.slot.high}
}

// forget drops what no later step looks at, so that equal worlds are equal.
func (c *modelClaimant) forget() {
	if c.phase != modelRead && c.phase != modelListed {
		c.view = slotView{}
	}
	if c.phase != modelSent && c.phase != modelAmbiguous {
		c.pending = modelMessage{}
	}
	if c.phase == modelIdle || c.phase == modelRead || c.phase == modelListed {
		c.held = reservation{}
	}
}

// next returns all worlds to which one step leads. It is the state machine of
// a claimant.
func (w modelWorld) next(b modelBounds, f modelFault) []modelWorld {
	var worlds []modelWorld
	for i := range b.claimants {
		step := func(change func(w *modelWorld, c *modelClaimant)) {
			after := w
			change(&after, &after.procs[i])
			after.procs[i].forget()
			worlds = append(worlds, after)
		}
		c := w.procs[i]
		if !c.pending.done && (c.phase == modelSent || c.phase == modelAmbiguous) {
			step(func(w *modelWorld, c *modelClaimant) { w.carryOut(i, &c.pending, f) })
			step(func(_ *modelWorld, c *modelClaimant) { c.pending.done = true })
		}
		if c.late != (modelMessage{}) {
			step(func(w *modelWorld, c *modelClaimant) {
				w.carryOut(i, &c.late, f)
				c.late = modelMessage{}
			})
			step(func(_ *modelWorld, c *modelClaimant) { c.late = modelMessage{} })
		}
		if c.live || w.marks[i] { // the session ends: known to the claimant first
			step(func(w *modelWorld, c *modelClaimant) { c.live, w.marks[i] = false, w.marks[i] && c.live })
		}
		switch c.phase {
		case modelIdle:
			if c.claims == b.claims || c.writes == b.writes {
				break
			}
			if f == modelListFirst {
				if w.marks == [3]bool{} {
					step(func(_ *modelWorld, c *modelClaimant) { c.phase = modelRead })
				}
				break
			}
			step(func(w *modelWorld, c *modelClaimant) { c.view, c.phase = w.node, modelRead })
		case modelRead:
			if f == modelListFirst {
				step(func(w *modelWorld, c *modelClaimant) { c.view, c.phase = w.node, modelListed })
				break
			}
			if w.marks == [3]bool{} {
				step(func(_ *modelWorld, c *modelClaimant) { c.phase = modelListed })
			}
		case modelListed:
			for _, now := range b.clocks {
				step(func(_ *modelWorld, c *modelClaimant) {
					c.claims++
					c.writes++
					r := c.view.claim(now, modelWindow, "", writeOf(i, c.writes))
					if f == modelNowOnly {
						r.from, r.slot.high = now, now+modelWindow
					}
					c.pending, c.phase = modelMessage{r: r, claims: true}, modelSent
				})
			}
		case modelSent:
			step(func(_ *modelWorld, c *modelClaimant) { c.phase = modelAmbiguous })
			if c.pending.done && c.pending.worked {
				step(func(_ *modelWorld, c *modelClaimant) { c.committed() })
			}
			if c.pending.done && !c.pending.worked { // or it was lost, and that is the same
				step(func(_ *modelWorld, c *modelClaimant) { c.phase, c.live = modelIdle, false })
			}
		case modelAmbiguous:
			if f == modelAssumeDone {
				step(func(_ *modelWorld, c *modelClaimant) { c.committed() })
				break
			}
			step(func(w *modelWorld, c *modelClaimant) {
				if !c.pending.done && b.late {
					c.late = c.pending
				}
				switch c.pending.r.outcome(w.node) {
				case outcomeDone:
					c.committed()
				case outcomeOpen:
					c.phase = modelOwner
					if c.pending.claims {
						c.phase = modelIdle
					}
				case outcomeLost:
					c.phase, c.live = modelIdle, false
				}
			})
		case modelOwner:
			step(func(w *modelWorld, c *modelClaimant) { // release
				c.phase, c.live = modelIdle, false
				w.marks[i] = false
			})
			if c.writes == b.writes {
				break
			}
			for _, now := range b.clocks {
				step(func(_ *modelWorld, c *modelClaimant) {
					c.writes++
					c.pending = modelMessage{r: c.held.extend(now, 0, modelWindow, writeOf(i, c.writes))}
					c.phase = modelSent
				})
			}
		}
	}
	return worlds
}

func writeOf(claimant, n int) string { return string([]byte{'a' + byte(claimant), '0' + byte(n)}) }

// broken says what is wrong in a world.
func (w *modelWorld) broken() string {
	var spans [][2]int64
	live := 0
	for i := range w.procs {
		c := &w.procs[i]
		for _, s := range c.spans {
			if s[0] < s[1] {
				spans = append(spans, s)
			}
		}
		if c.live && w.marks[i] {
			live++
		}
	}
	for i, a := range spans {
		for _, b := range spans[:i] {
			if a[0] < b[1] && b[0] < a[1] {
				return "two claims own one moment"
			}
		}
	}
	if live > 1 {
		return "two hold one number"
	}
	return ""
}

// explore visits every world that can be reached, and returns how many there
// are, or what is wrong in the first that is broken.
func explore(b modelBounds, f modelFault) (worlds int, broken string) {
	first := modelWorld{node: noSlotView}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.Comparable(seed, first): {}}
	for todo := []modelWorld{first}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, after := range w.next(b, f) {
			key := maphash.Comparable(seed, after)
			if _, known := seen[key]; known {
				continue
			}
			if broken := after.broken(); broken != "" {
				return len(seen), broken
			}
			seen[key] = struct{}{}
			todo = append(todo, after)
		}
	}
	return len(seen), ""
}

func TestSlotModel(t *testing.T) {
	t.Parallel()
	all := []modelBounds{
		{claimants: 2, claims: 1, writes: 3, clocks: []int64{0, 3}},
		{claimants: 2, claims: 2, writes: 2, clocks: []int64{0, 3}, late: true},
		{claimants: 3, claims: 1, writes: 2, clocks: []int64{1}},
	}
	if UnderRace { // it has one goroutine
		all = all[:1]
	}
	for _, b := range all {
		worlds, broken := explore(b, modelSound)
		if broken != "" {
			t.Errorf("%+v: %s", b, broken)
		}
		t.Logf("%+v: %d worlds", b, worlds)
	}
}

// The model finds each mechanism that is missing.
func TestSlotModelFinds(t *testing.T) {
	t.Parallel()
	b := modelBounds{claimants: 2, claims: 2, writes: 2, clocks: []int64{0, 3}}
	for f, what := range map[modelFault]string{
		modelAnyVersion: "the version is not compared",
		modelNowOnly:    "the reservation begins at the own clock's time",
		modelAssumeDone: "a lost reply is taken for success",
		modelListFirst:  "the slot is read after the marks",
	} {
		if _, broken := explore(b, f); broken == "" {
			t.Errorf("not found: %s", what)
		} else {
			t.Logf("%s: %s", what, broken)
		}
	}
}
