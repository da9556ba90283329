package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/batonzk/baton/framework"
)

// errCounterEnd is why nobody can take over the place of a contender whose
// number others may have too.
var errCounterEnd = errors.New("recipes: the path's counter is at its end, so that a writer cannot become a reader: delete the path when nobody uses it")

// downgrade returns the first lease of a hold that has the place, the session
// and the token of writer, a hold of another line at the same path: of a node
// that is not sequential but has the writer's number, as Curator makes it since
// 5.5. It waits for nobody; if try is set, not for servers either beyond the
// client's retry policy.
//
// Nobody can have come in between if the writer's node was there when the new
// one was made. That is so if it is in a list made afterwards, since no name is
// used twice. If it is not, the new node is worth nothing: others may hold, or
// may have waited for the writer alone and not know of it.
func (l *line) downgrade(ctx context.Context, writer *hold, try bool) (*Lease, error) {
	_, name := framework.SplitPath(writer.path)
	from, ok := writer.line.rule.parse(name)
	if !ok || from.seq == math.MaxInt32 {
		return nil, errCounterEnd
	}
	join := func(ctx context.Context) (*place, []string, error) { return l.joinAt(ctx, writer, from) }
	return l.acquireFrom(ctx, try, join)
}

// joinAt is join at the place of writer, whose name is from.
func (l *line) joinAt(ctx context.Context, writer *hold, from contender) (*place, []string, error) {
	name := fmt.Sprintf("%s%010d", l.rule.label, from.seq)
	var children []string
	c, err := l.client.Create(ctx, framework.JoinPath(l.path, name), l.settings.data,
		framework.WithMode(framework.Ephemeral), framework.Protected(),
		framework.InSession(writer.session), framework.Siblings(&children))
	if says(ctx, err, framework.ErrNoNode) { // the parent, and all that was in it
		return nil, nil, writer.missing()
	}
	if err != nil {
		if over := writer.look(); over != nil {
			err = over
		}
		return nil, nil, withContext(ctx, err)
	}
	_, name = framework.SplitPath(c.Path)
	p := l.newPlace(c)
	p.own = contender{name: name, label: l.rule.label, seq: from.seq, czxid: c.Stat.Czxid}
	p.token = writer.token
	p.from = &inheritance{writer: writer, name: from.name}
	return p, children, nil
}

// An inheritance is a place that one node is to have from another.
type inheritance struct {
	writer *hold
	name   string // of its node
}

// inherit returns nil if children, listed after the own node was made, show
// that the place is p's, and the writer's lease has not ended meanwhile.
func (p *place) inherit(children []string) error {
	if !slices.Contains(children, p.own.name) {
		p.gone = true
		return fmt.Errorf("%w: %w", errAgain, errNodeDeleted)
	}
	if !slices.Contains(children, p.from.name) {
		return p.from.writer.missing()
	}
	if err := p.from.writer.look(); err != nil {
		return err
	}
	p.from, p.heir = nil, true // from now on it has the place, whatever becomes of the writer
	return nil
}
