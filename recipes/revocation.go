package recipes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// A Revocation is a request to give a lock up, as its holder hears it. Of a
// plain one, such as Curator's, there is nothing to know.
type Revocation struct {
	Reason string // see [WithReason]
	By     string // host and process that asked, "web-3:4711"
	// Deadline is until when the holder has time: as much as was granted,
	// since it heard. It is the zero time if none was set. Whoever asked counts
	// for himself, from when a server took the request in; so it can be earlier
	// there.
	Deadline time.Time
	// Forced says that the lock is taken away after the deadline.
	Forced bool
}

// String says what is known of the request, for logs and errors.
func (r Revocation) String() string {
	s := "asked for"
	if r.By != "" {
		s += " by " + quote([]byte(r.By))
	}
	if r.Reason != "" {
		s += ": " + strconv.Quote(r.Reason)
	}
	return s
}

// revokeRequest is what Curator's Revoker writes into a contender's node.
var revokeRequest = []byte("__REVOKE__")

// A request is what the node of a contender holds that was asked to go: by
// itself Curator's __REVOKE__, which is all that Curator understands; or, on a
// second line, the rest as JSON.
type request struct {
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
	Granted int64  `json:"granted_ms,omitempty"` // time to give the lock up
	Force   bool   `json:"force,omitempty"`
	// Data is what the node held before. Plain requests have written over it.
	// Null says that it is not known.
	Data []byte `json:"data"`
}

const (
	reasonMax  = 1 << 10 // bytes, of a reason
	carriedMax = 4 << 10 // bytes, of the previous data
	requestMax = 64 << 10
	// grantedMax bounds what a holder believes: a time that overflows is none.
	grantedMax = 365 * 24 * time.Hour
)

func (r request) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s\n%s", revokeRequest, text), nil
}

// parseRequest reads a node's data and reports whether it is a request.
// Whatever else is on the lines below the first: it is one, if a plain one.
func parseRequest(data []byte) (request, bool) {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if !bytes.Equal(first, revokeRequest) {
		return request{}, false
	}
	var r request
	if len(rest) > requestMax || json.Unmarshal(rest, &r) != nil {
		return request{}, true
	}
	if r.Granted < 0 || r.Granted > grantedMax.Milliseconds() {
		r.Granted = 0
	}
	if len(r.Reason) > reasonMax {
		r.Reason = r.Reason[:reasonMax]
	}
	return r, true
}

func isRequest(data []byte) bool {
	_, ok := parseRequest(data)
	return ok
}

// said returns what a contender says of itself whose node holds data.
func said(data []byte) []byte {
	r, ok := parseRequest(data)
	switch {
	case !ok:
		return data
	case r.Data == nil:
		return revokeRequest
	}
	return r.Data
}

// heard is the request as one sees it who hears it now.
func (r request) heard(now time.Time) Revocation {
	rev := Revocation{Reason: r.Reason, By: r.By, Forced: r.Force}
	if r.Granted > 0 {
		rev.Deadline = now.Add(time.Duration(r.Granted) * time.Millisecond)
	}
	return rev
}
