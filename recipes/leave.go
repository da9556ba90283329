package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/batonzk/baton/framework"
)

// failure sorts err, nil included: the loss of the session means to join
// again, for as long as ctx allows.
func (p *place) failure(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errAgain) || errors.Is(err, ErrClosed) {
		return err
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	switch lost := p.session.Err(); {
	case errors.Is(lost, ErrClosed):
		return lost
	case lost != nil:
		return fmt.Errorf("%w: %w", errAgain, lost)
	}
	return err
}

// leaveTime is how long one whose turn it is not waits for his node to be
// deleted.
const leaveTime = time.Second

// leave gives the place up. It does not wait for the deletion once ctx is done,
// nor for a connection if there is none: the rest is then the background's. The
// error says that the node stays.
func (p *place) leave(ctx context.Context) error {
	p.unwatch()
	hurry, stop := leaving(ctx, p.session)
	defer stop()
	stays := p.line.unmark(hurry, p.marker)
	if p.gone {
		return stays
	}
	return both(p.line.dismiss(ctx, p.session, p.path), stays)
}

// leaving returns the context of one who leaves without having held.
func leaving(ctx context.Context, session *framework.Session) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	stop := context.AfterFunc(session.ConnectionContext(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// dismiss deletes a node of session that holds nothing, as leave does.
func (l *line) dismiss(ctx context.Context, session *framework.Session, path string) error {
	if session.Err() != nil {
		return nil
	}
	ctx, stop := leaving(ctx, session)
	defer stop()
	if err := l.delete(ctx, path, session); errors.Is(err, errStays) {
		return err
	}
	return nil
}

// waited says for how long the place has waited, as the beginning of a message;
// nothing of one who only tried.
func (p *place) waited() string {
	if p.try {
		return ""
	}
	return fmt.Sprintf("waited %v, ", time.Since(p.joined).Round(time.Millisecond))
}

// explain adds to err what the place was waiting for, and for how long.
func (p *place) explain(err error) error {
	if p.behind.Path == "" {
		return err
	}
	whose := ""
	if p.ours {
		whose = " (held by this client)"
	}
	return fmt.Errorf("%w: %s%d ahead, the next is %s of %s%s", bare{err}, p.waited(), p.ahead, p.behind.Path, quote(p.behind.Data), whose)
}

// quote makes a node's data fit for a message.
func quote(data []byte) string {
	const most = 64
	if len(data) > most {
		return strconv.Quote(string(data[:most])) + "..."
	}
	return strconv.Quote(string(data))
}
