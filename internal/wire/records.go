package wire

// RequestHeader precedes every request.
type RequestHeader struct {
	Xid int32
	Op  OpCode
}

func (r *RequestHeader) code(c coder) { c.int(&r.Xid); c.int((*int32)(&r.Op)) }

// ReplyHeader precedes every reply. Zxid is the last transaction that the
// server had applied.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  Code
}

func (r *ReplyHeader) code(c coder) { c.int(&r.Xid); c.long(&r.Zxid); c.int((*int32)(&r.Err)) }

// ConnectRequest opens or resumes a session; it has no header.
//
// The readOnly byte came with ZooKeeper 3.4. A client that leaves it out is
// served all the same: HasReadOnly says whether it was there.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	TimeoutMillis   int32
	SessionID       int64
	Password        []byte
	ReadOnly        bool
	HasReadOnly     bool
}

func (r *ConnectRequest) code(c coder) {
	c.int(&r.ProtocolVersion)
	c.long(&r.LastZxidSeen)
	c.int(&r.TimeoutMillis)
	c.long(&r.SessionID)
	c.buffer(&r.Password)
	optionalBool(c, &r.HasReadOnly, &r.ReadOnly)
}

// ConnectResponse answers a [ConnectRequest]; a SessionID of 0 says that the
// session to resume has expired.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeoutMillis   int32
	SessionID       int64
	Password        []byte
	ReadOnly        bool
	HasReadOnly     bool
}

func (r *ConnectResponse) code(c coder) {
	c.int(&r.ProtocolVersion)
	c.int(&r.TimeoutMillis)
	c.long(&r.SessionID)
	c.buffer(&r.Password)
	optionalBool(c, &r.HasReadOnly, &r.ReadOnly)
}

func optionalBool(c coder, has, v *bool) {
	if d, ok := c.(*Decoder); ok {
		*has = d.Len() > 0
	}
	if *has {
		c.bool(v)
	}
}

// Stat is a node's metadata. Times are milliseconds since 1970.
type Stat struct {
	Czxid          int64
	Mzxid          int64
	Ctime          int64
	Mtime          int64
	Version        int32
	Cversion       int32
	Aversion       int32
	EphemeralOwner int64
	DataLength     int32
	NumChildren    int32
	Pzxid          int64
}

func (s *Stat) code(c coder) {
	c.long(&s.Czxid)
	c.long(&s.Mzxid)
	c.long(&s.Ctime)
	c.long(&s.Mtime)
	c.int(&s.Version)
	c.int(&s.Cversion)
	c.int(&s.Aversion)
	c.long(&s.EphemeralOwner)
	c.int(&s.DataLength)
	c.int(&s.NumChildren)
	c.long(&s.Pzxid)
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

func (a *ACL) code(c coder) { c.int(&a.Perms); c.string(&a.Scheme); c.string(&a.ID) }

func acls(c coder, v *[]ACL) { vector(c, v, 12, (*ACL).code) }

func vector[T any](c coder, v *[]T, elem int, code func(*T, coder)) {
	n := c.count(len(*v), elem)
	if _, ok := c.(*Decoder); ok {
		*v = make([]T, n)
	}
	for i := range *v {
		code(&(*v)[i], c)
	}
}

// Empty is the record without fields: the request of ping and closeSession,
// the reply of delete, check, auth and others.
type Empty struct{}

func (*Empty) code(coder) {}

// CreateRequest is the request of create, create2 and createContainer.
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags int32
}

func (r *CreateRequest) code(c coder) {
	c.string(&r.Path)
	c.buffer(&r.Data)
	acls(c, &r.ACL)
	c.int(&r.Flags)
}

// CreateTTLRequest is the request of createTTL; TTL is in milliseconds.
type CreateTTLRequest struct {
	CreateRequest
	TTL int64
}

func (r *CreateTTLRequest) code(c coder) { r.CreateRequest.code(c); c.long(&r.TTL) }

// CreateResponse is the reply of create.
type CreateResponse struct{ Path string }

func (r *CreateResponse) code(c coder) { c.string(&r.Path) }

// Create2Response is the reply of create2, createContainer and createTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

func (r *Create2Response) code(c coder) { c.string(&r.Path); r.Stat.code(c) }

// PathVersionRequest is the request of delete and check.
type PathVersionRequest struct {
	Path    string
	Version int32
}

func (r *PathVersionRequest) code(c coder) { c.string(&r.Path); c.int(&r.Version) }

// PathWatchRequest is the request of exists, getData, getChildren and
// getChildren2.
type PathWatchRequest struct {
	Path  string
	Watch bool
}

func (r *PathWatchRequest) code(c coder) { c.string(&r.Path); c.bool(&r.Watch) }

// PathRequest is the request and the reply of sync, and the request of
// getACL, deleteContainer, getEphemerals (a prefix) and getAllChildrenNumber.
type PathRequest struct{ Path string }

func (r *PathRequest) code(c coder) { c.string(&r.Path) }

// StatResponse is the reply of exists, setData and setACL.
type StatResponse struct{ Stat Stat }

func (r *StatResponse) code(c coder) { r.Stat.code(c) }

// GetDataResponse is the reply of getData.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

func (r *GetDataResponse) code(c coder) { c.buffer(&r.Data); r.Stat.code(c) }

// SetDataRequest is the request of setData.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32
}

func (r *SetDataRequest) code(c coder) { c.string(&r.Path); c.buffer(&r.Data); c.int(&r.Version) }

// StringsResponse is the reply of getChildren and getEphemerals.
type StringsResponse struct{ Names []string }

func (r *StringsResponse) code(c coder) { c.strings(&r.Names) }

// GetChildren2Response is the reply of getChildren2.
type GetChildren2Response struct {
	Children []string
	Stat     Stat
}

func (r *GetChildren2Response) code(c coder) { c.strings(&r.Children); r.Stat.code(c) }

// CountResponse is the reply of getAllChildrenNumber.
type CountResponse struct{ Count int32 }

func (r *CountResponse) code(c coder) { c.int(&r.Count) }

// GetACLResponse is the reply of getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

func (r *GetACLResponse) code(c coder) { acls(c, &r.ACL); r.Stat.code(c) }

// SetACLRequest is the request of setACL.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32
}

func (r *SetACLRequest) code(c coder) { c.string(&r.Path); acls(c, &r.ACL); c.int(&r.Version) }

// AuthRequest is the request of auth, sent with [XidAuth].
type AuthRequest struct {
	Type   int32
	Scheme string
	Auth   []byte
}

func (r *AuthRequest) code(c coder) { c.int(&r.Type); c.string(&r.Scheme); c.buffer(&r.Auth) }

// WatcherEvent is the body of a notification, sent with [XidNotify].
type WatcherEvent struct {
	Type  int32
	State int32
	Path  string
}

func (r *WatcherEvent) code(c coder) { c.int(&r.Type); c.int(&r.State); c.string(&r.Path) }

// SetWatchesRequest is the request of setWatches.
type SetWatchesRequest struct {
	RelativeZxid int64
	Data         []string
	Exist        []string
	Child        []string
}

func (r *SetWatchesRequest) code(c coder) {
	c.long(&r.RelativeZxid)
	c.strings(&r.Data)
	c.strings(&r.Exist)
	c.strings(&r.Child)
}

// SetWatches2Request is the request of setWatches2.
type SetWatches2Request struct {
	SetWatchesRequest
	Persistent          []string
	PersistentRecursive []string
}

func (r *SetWatches2Request) code(c coder) {
	r.SetWatchesRequest.code(c)
	c.strings(&r.Persistent)
	c.strings(&r.PersistentRecursive)
}

// WatchTypeRequest is the request of removeWatches and checkWatches (Type is
// a Watcher… value) and of addWatch (an AddWatch… value).
type WatchTypeRequest struct {
	Path string
	Type int32
}

func (r *WatchTypeRequest) code(c coder) { c.string(&r.Path); c.int(&r.Type) }

// ErrorResponse is the reply of addWatch, always with [CodeOK], and of a
// failed operation in a multi.
type ErrorResponse struct{ Err Code }

func (r *ErrorResponse) code(c coder) { c.int((*int32)(&r.Err)) }

// ReconfigRequest is the request of reconfig.
type ReconfigRequest struct {
	Joining    string
	Leaving    string
	NewMembers string
	Config     int64
}

func (r *ReconfigRequest) code(c coder) {
	c.string(&r.Joining)
	c.string(&r.Leaving)
	c.string(&r.NewMembers)
	c.long(&r.Config)
}

// ClientInfo is one authenticated identity of a connection.
type ClientInfo struct {
	Scheme string
	User   string
}

func (r *ClientInfo) code(c coder) { c.string(&r.Scheme); c.string(&r.User) }

// WhoAmIResponse is the reply of whoAmI.
type WhoAmIResponse struct{ Clients []ClientInfo }

func (r *WhoAmIResponse) code(c coder) { vector(c, &r.Clients, 8, (*ClientInfo).code) }
