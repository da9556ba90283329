// Package embedded is a ZooKeeper server inside the process: what miniredis
// is to Redis. It speaks the wire protocol of Apache ZooKeeper 3.8, over TCP
// and over an in-memory pipe, keeps its tree in memory, and does what no real
// server can be asked to do: expire this session now, lose this reply after
// the commit, stop answering, move the clock.
//
//	srv, err := embedded.Start()
//	if err != nil {
//		return err
//	}
//	defer srv.Close()
//
//	addr, err := srv.Listen("127.0.0.1:0") // for any ZooKeeper client
//	conn, err := srv.DialContext(ctx, "", "") // or without a socket
//
// # What it is for
//
// Development, examples, tests, and tools that are one process anyway. A
// [Server] started inside a testing/synctest bubble and reached over the pipe
// stays inside that bubble: minutes of session time pass in milliseconds, and
// the same way each time.
//
// # What it answers
//
// Every operation that clients in use send: the create family, delete, the
// reads, setData, ACLs, sync, multi and multiRead, authentication by digest,
// all kinds of watches including persistent and recursive ones, session
// resumption and expiry, containers and TTL nodes; and the four-letter words
// that tools parse, on the same port.
//
// Its rules are those of ZooKeeper 3.8.0 as Debian ships it (3.8.0-11+deb12u2),
// the one release that it is compared with: statistics, transaction numbers,
// the order of watch events and replies, error codes, the order in which
// children are listed, and the oddities that a client can see. One of these
// is easily met: since 3.6 the counter of sequential nodes sticks at
// 2147483647 ([WithWrappingSequence] has the older behaviour). Another: an
// operation that there is not is answered Unimplemented, and the connection is
// then closed. What is different:
//
//   - a check outside a multi is answered when it succeeds; a real server then
//     sends nothing;
//   - what is refused because of [WithoutContainers] keeps its connection;
//   - a multiRead whose reply would be longer than may wait for a client is
//     answered SystemError (-1);
//   - there is no SASL;
//   - all four-letter words are answered without being allowed first; "mntr"
//     names all metrics of a real server, but those of parts that are not here
//     are 0.
//
// Some error codes of ZooKeeper a client cannot provoke here, since a server
// that stands alone and is set up as usual does not give them. [Answer] has the
// server give any of them:
//
//	-13, -14  no quorum, reconfiguration in progress: only an ensemble reconfigures
//	-112      session expired, as the reply to a request: it goes to a connection
//	          that is being closed, and comes through by chance if at all
//	-118      session moved: in an ensemble, what was on its way by another server
//	-119      not read-only: from a server that has lost its quorum
//	-120      ephemeral on a local session: needs an ensemble with local sessions
//	-124      session closed, authentication required: from a server that is set
//	          up to refuse who has not proved an identity
//	-127      throttled: from a server that is set up to shed load
//
// -3, -4, -7, -12, -100, -113 and -122 are made up by clients, or by nobody.
//
// # How that is known
//
// More than a thousand recorded cases run against this server in each test
// run, and against a real one where BATON_APACHE is 1, as do 100,000 random
// requests of three sessions. Apache Curator 5.4, kazoo 2.8 and zkCli.sh are
// run against both and have to print the same. The frames that pin the codec
// come from Apache's client and a real server.
//
// # Faults
//
// Every fault is a method of [Server]. [Server.OnRequest] and
// [Server.OnReply] see each request before and after it is carried out and
// may hold it, cut the connection, drop it or answer in its place;
// [Server.CutBefore] and [Server.LoseReply] do the two most wanted of these
// once. [Server.ExpireSession], [Server.DropConnections], [Server.Refuse],
// [Server.Delay] and [Server.Silence] work on sessions and connections,
// [Server.Freeze] on all of them, [Server.Lag] on what they see,
// [Server.Advance], [Server.ReapContainers] and [Server.SetSequence] on time
// and state. All may be called at any time from any goroutine.
//
// # What it is not
//
// Not for production. Nothing is written to disk: when the process ends, all
// data is gone. There is one server, no ensemble, so it cannot fail over; of
// the staleness of a follower it shows what [Server.Lag] makes. It has no TLS
// of its own.
//
// # Limits
//
// A client cannot make the server use memory without end, nor hold up others
// for long: what is accepted is limited for a connection and in total, by
// options with defaults that no sane client meets. There are limits for a
// request ([WithMaxBuffer]), for what waits to be read ([WithMaxQueue]), and for
// connections, sessions, watches, identities and the tree
// ([WithMaxConnections], [WithMaxSessions], [WithMaxWatches], [WithMaxAuth],
// [WithMaxTree]). An ACL may have 1,000 entries.
package embedded
