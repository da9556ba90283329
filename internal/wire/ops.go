package wire

// An OpCode names an operation.
type OpCode int32

// The operations of ZooKeeper 3.8 that a client can send.
const (
	OpNotify               OpCode = 0
	OpCreate               OpCode = 1
	OpDelete               OpCode = 2
	OpExists               OpCode = 3
	OpGetData              OpCode = 4
	OpSetData              OpCode = 5
	OpGetACL               OpCode = 6
	OpSetACL               OpCode = 7
	OpGetChildren          OpCode = 8
	OpSync                 OpCode = 9
	OpPing                 OpCode = 11
	OpGetChildren2         OpCode = 12
	OpCheck                OpCode = 13
	OpMulti                OpCode = 14
	OpCreate2              OpCode = 15
	OpReconfig             OpCode = 16
	OpCheckWatches         OpCode = 17
	OpRemoveWatches        OpCode = 18
	OpCreateContainer      OpCode = 19
	OpDeleteContainer      OpCode = 20
	OpCreateTTL            OpCode = 21
	OpMultiRead            OpCode = 22
	OpAuth                 OpCode = 100
	OpSetWatches           OpCode = 101
	OpSASL                 OpCode = 102
	OpGetEphemerals        OpCode = 103
	OpGetAllChildrenNumber OpCode = 104
	OpSetWatches2          OpCode = 105
	OpAddWatch             OpCode = 106
	OpWhoAmI               OpCode = 107
	OpCreateSession        OpCode = -10
	OpCloseSession         OpCode = -11
	OpError                OpCode = -1
)

var opNames = map[OpCode]string{
	OpNotify: "notify", OpCreate: "create", OpDelete: "delete", OpExists: "exists",
	OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
	OpGetChildren: "getChildren", OpSync: "sync", OpPing: "ping", OpGetChildren2: "getChildren2",
	OpCheck: "check", OpMulti: "multi", OpCreate2: "create2", OpReconfig: "reconfig",
	OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer",
	OpCreateTTL: "createTTL", OpMultiRead: "multiRead", OpAuth: "auth",
	OpSetWatches: "setWatches", OpSASL: "sasl", OpGetEphemerals: "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber", OpSetWatches2: "setWatches2",
	OpAddWatch: "addWatch", OpWhoAmI: "whoAmI", OpCreateSession: "createSession",
	OpCloseSession: "closeSession", OpError: "error",
}

// String returns the operation's name as ZooKeeper spells it.
func (o OpCode) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return "unknown"
}

// Reserved xids. Every other xid is the client's to choose.
const (
	XidNotify     int32 = -1 // a watch event
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8
)

// Create modes, the Flags of a [CreateRequest].
const (
	ModePersistent              int32 = 0
	ModeEphemeral               int32 = 1
	ModePersistentSequential    int32 = 2
	ModeEphemeralSequential     int32 = 3
	ModeContainer               int32 = 4
	ModePersistentTTL           int32 = 5
	ModePersistentSequentialTTL int32 = 6
)

// Watch event types, the Type of a [WatcherEvent].
const (
	EventNone                int32 = -1
	EventNodeCreated         int32 = 1
	EventNodeDeleted         int32 = 2
	EventNodeDataChanged     int32 = 3
	EventNodeChildrenChanged int32 = 4
	EventDataWatchRemoved    int32 = 5
	EventChildWatchRemoved   int32 = 6
)

// StateSyncConnected is the State of every [WatcherEvent] of a node.
const StateSyncConnected int32 = 3

// Watcher types of removeWatches and checkWatches.
const (
	WatcherChildren int32 = 1
	WatcherData     int32 = 2
	WatcherAny      int32 = 3
)

// Modes of addWatch.
const (
	AddWatchPersistent          int32 = 0
	AddWatchPersistentRecursive int32 = 1
)

// Permissions of an [ACL].
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)
