package wire

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

var samples = []Record{
	&RequestHeader{Xid: -2, Op: OpPing},
	&ReplyHeader{Xid: 7, Zxid: math.MaxInt64, Err: CodeNoNode},
	&ConnectRequest{LastZxidSeen: 5, TimeoutMillis: 3000, SessionID: 9, Password: []byte("secret"), HasReadOnly: true, ReadOnly: true},
	&ConnectRequest{TimeoutMillis: 3000, Password: []byte{}},
	&ConnectResponse{TimeoutMillis: 3000, SessionID: 1, Password: []byte("p"), HasReadOnly: true},
	&Stat{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
	&CreateRequest{Path: "/a", Data: []byte("x"), ACL: []ACL{{PermAll, "world", "anyone"}}, Flags: ModeEphemeralSequential},
	&CreateRequest{Path: "/a", Data: nil, ACL: []ACL{}},
	&CreateTTLRequest{CreateRequest{"/a", []byte{}, []ACL{{1, "s", "i"}}, ModePersistentTTL}, 12345},
	&Create2Response{Path: "/a", Stat: Stat{Czxid: 3}},
	&PathVersionRequest{"/a", -1},
	&PathWatchRequest{"/a", true},
	&GetDataResponse{Data: []byte("data"), Stat: Stat{Version: 2}},
	&GetChildren2Response{Children: []string{"a", ""}},
	&GetACLResponse{ACL: []ACL{{31, "digest", "u:p"}}},
	&SetWatches2Request{SetWatchesRequest{4, []string{"/d"}, []string{}, []string{"/c"}}, []string{"/p"}, []string{}},
	&WatcherEvent{EventNodeDeleted, StateSyncConnected, "/gone"},
	&WhoAmIResponse{[]ClientInfo{{"digest", "u"}}},
	&MultiRequest{[]Op{{OpCreate2, &CreateRequest{Path: "/m", ACL: []ACL{}}}, {OpCheck, &PathVersionRequest{"/m", 0}}}},
	&MultiResponse{[]OpResult{{OpError, CodeNoNode, &ErrorResponse{CodeNoNode}}, {OpDelete, 0, &Empty{}}}},
}

func TestRoundTrip(t *testing.T) {
	for _, r := range samples {
		b := Append(nil, r)
		got := reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record)
		d := NewDecoder(b)
		if err := d.Decode(got); err != nil {
			t.Errorf("%T: %v", r, err)
			continue
		}
		if d.Len() != 0 || !reflect.DeepEqual(got, r) {
			t.Errorf("%T: got %+v, want %+v, %d bytes left", r, got, r, d.Len())
		}
	}
}

// Every proper prefix of a record is an error, never a panic or a value:
// except the records whose last field is optional, cut just before it.
func TestTruncated(t *testing.T) {
	for _, r := range samples {
		b := Append(nil, r)
		for n := range b {
			got := reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record)
			err := NewDecoder(b[:n]).Decode(got)
			_, optional := reflect.TypeOf(r).Elem().FieldByName("HasReadOnly")
			if optional && n == len(b)-1 {
				continue
			}
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: err %v", r, n, len(b), err)
			}
		}
	}
}

func TestHostileCounts(t *testing.T) {
	for _, b := range [][]byte{
		{0x7f, 0xff, 0xff, 0xff},
		{0x00, 0x00, 0x00, 0x02, 0, 0, 0, 0},
	} {
		var r StringsResponse
		if err := NewDecoder(b).Decode(&r); !errors.Is(err, ErrMalformed) {
			t.Errorf("% x: err %v", b, err)
		}
	}
}
