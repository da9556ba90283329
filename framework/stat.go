package framework

import (
	"time"

	"github.com/batonzk/baton/internal/wire"
)

// AnyVersion matches every version of a node.
const AnyVersion int32 = -1

// Stat is a node's metadata. The zxids are transaction numbers: they rise for
// the life of an ensemble.
type Stat struct {
	Czxid          int64     // of the transaction that created the node
	Mzxid          int64     // of the last that changed its data
	Pzxid          int64     // of the last that added or removed a child
	Created        time.Time // by the server's clock
	Modified       time.Time // by the server's clock
	Version        int32     // changes of the data
	ChildVersion   int32     // changes of the set of children
	ACLVersion     int32     // changes of the ACL
	EphemeralOwner int64     // the session that the node dies with, 0 if none
	DataLength     int
	NumChildren    int
}

// IsZero reports whether s is no node's metadata, as [Client.ExistsW] returns
// it when there is no node.
func (s Stat) IsZero() bool { return s == Stat{} }

func fromWireStat(s *wire.Stat) Stat {
	return Stat{
		Czxid:          s.Czxid,
		Mzxid:          s.Mzxid,
		Pzxid:          s.Pzxid,
		Created:        time.UnixMilli(s.Ctime),
		Modified:       time.UnixMilli(s.Mtime),
		Version:        s.Version,
		ChildVersion:   s.Cversion,
		ACLVersion:     s.Aversion,
		EphemeralOwner: s.EphemeralOwner,
		DataLength:     int(s.DataLength),
		NumChildren:    int(s.NumChildren),
	}
}
