package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// goldenRecords are the request and the reply of each operation.
var goldenRecords = map[string][2]func() Record{
	"connect":              {func() Record { return new(ConnectRequest) }, func() Record { return new(ConnectResponse) }},
	"notify":               {nil, func() Record { return new(WatcherEvent) }},
	"create":               {func() Record { return new(CreateRequest) }, func() Record { return new(CreateResponse) }},
	"create2":              {func() Record { return new(CreateRequest) }, func() Record { return new(Create2Response) }},
	"createContainer":      {func() Record { return new(CreateRequest) }, func() Record { return new(Create2Response) }},
	"createTTL":            {func() Record { return new(CreateTTLRequest) }, func() Record { return new(Create2Response) }},
	"delete":               {func() Record { return new(PathVersionRequest) }, empty},
	"exists":               {func() Record { return new(PathWatchRequest) }, func() Record { return new(StatResponse) }},
	"getData":              {func() Record { return new(PathWatchRequest) }, func() Record { return new(GetDataResponse) }},
	"setData":              {func() Record { return new(SetDataRequest) }, func() Record { return new(StatResponse) }},
	"getACL":               {func() Record { return new(PathRequest) }, func() Record { return new(GetACLResponse) }},
	"setACL":               {func() Record { return new(SetACLRequest) }, func() Record { return new(StatResponse) }},
	"getChildren":          {func() Record { return new(PathWatchRequest) }, func() Record { return new(StringsResponse) }},
	"getChildren2":         {func() Record { return new(PathWatchRequest) }, func() Record { return new(GetChildren2Response) }},
	"sync":                 {func() Record { return new(PathRequest) }, func() Record { return new(PathRequest) }},
	"ping":                 {empty, empty},
	"multi":                {func() Record { return new(MultiRequest) }, func() Record { return new(MultiResponse) }},
	"multiRead":            {func() Record { return new(MultiRequest) }, func() Record { return new(MultiResponse) }},
	"reconfig":             {func() Record { return new(ReconfigRequest) }, func() Record { return new(GetDataResponse) }},
	"checkWatches":         {func() Record { return new(WatchTypeRequest) }, empty},
	"removeWatches":        {func() Record { return new(WatchTypeRequest) }, empty},
	"addWatch":             {func() Record { return new(WatchTypeRequest) }, func() Record { return new(ErrorResponse) }},
	"setWatches":           {func() Record { return new(SetWatchesRequest) }, empty},
	"setWatches2":          {func() Record { return new(SetWatches2Request) }, empty},
	"auth":                 {func() Record { return new(AuthRequest) }, empty},
	"getEphemerals":        {func() Record { return new(PathRequest) }, func() Record { return new(StringsResponse) }},
	"getAllChildrenNumber": {func() Record { return new(PathRequest) }, func() Record { return new(CountResponse) }},
	"whoAmI":               {empty, func() Record { return new(WhoAmIResponse) }},
	"closeSession":         {empty, empty},
}

func empty() Record { return new(Empty) }

// A golden is one frame that Apache's client, kazoo or a real server has sent.
type golden struct {
	op    string
	reply bool
	frame []byte
}

func goldens(t testing.TB) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		frame, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, golden{f[0], f[1] == "reply", frame})
	}
	return all
}

// records returns new records for the parts of the frame.
func (g *golden) records() []Record {
	kinds := goldenRecords[g.op]
	switch {
	case g.op == "connect" && g.reply:
		return []Record{kinds[1]()}
	case g.op == "connect":
		return []Record{kinds[0]()}
	case !g.reply:
		return []Record{new(RequestHeader), kinds[0]()}
	case bytes.Equal(g.frame[12:16], make([]byte, 4)):
		return []Record{new(ReplyHeader), kinds[1]()}
	}
	return []Record{new(ReplyHeader)} // an error: nothing follows
}

// What others have sent is understood to the last byte, and sent back the same.
func TestGoldens(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range goldens(t) {
		seen[g.op] = true
		rs := g.records()
		d := NewDecoder(g.frame)
		if err := d.Decode(rs...); err != nil || d.Len() > 0 {
			t.Errorf("%s %x: %v, %d bytes left", g.op, g.frame, err, d.Len())
			continue
		}
		if d.Nulls() {
			continue // a null string is read as an empty one
		}
		if again := Append(nil, rs...); !bytes.Equal(again, g.frame) {
			t.Errorf("%s: read\n%x\nwritten\n%x", g.op, g.frame, again)
		}
	}
	for op := range goldenRecords {
		if !seen[op] {
			t.Errorf("no golden frame of %s", op)
		}
	}
}

// Each golden frame, cut anywhere, is an error or a shorter record, not a panic.
func TestGoldensCut(t *testing.T) {
	for _, g := range goldens(t) {
		for n := range g.frame[:len(g.frame)-1] {
			rs := g.records()
			if d := NewDecoder(g.frame[:n]); d.Decode(rs...) == nil && d.Len() > 0 {
				t.Errorf("%s cut to %d bytes: %d are left", g.op, n, d.Len())
			}
		}
	}
}

// FuzzRequest and FuzzReply decode any bytes as any record that may come.
func FuzzRequest(f *testing.F) { fuzzSide(f, 0) }

func FuzzReply(f *testing.F) { fuzzSide(f, 1) }

func fuzzSide(f *testing.F, side int) {
	for _, g := range goldens(f) {
		f.Add(g.frame)
		f.Add(g.frame[min(8, len(g.frame)):])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for op, kinds := range goldenRecords {
			if kinds[side] == nil {
				continue
			}
			r := kinds[side]()
			d := NewDecoder(b)
			if err := d.Decode(r); err != nil {
				continue
			}
			again := Append(nil, r)
			twice := kinds[side]()
			if err := NewDecoder(again).Decode(twice); err != nil {
				t.Fatalf("%s: %v for what was written", op, err)
			}
			if !bytes.Equal(Append(nil, twice), again) {
				t.Fatalf("%s: %x is not stable", op, again)
			}
		}
	})
}
