// Package framework is a client of Apache ZooKeeper: sessions that know when
// they end, a connection that mends itself, and operations that take a
// context. The recipes of Baton are built on it, and on nothing else.
//
//	provider, err := ensemble.NewFixed("zk1,zk2,zk3/app")
//	client, err := framework.New(provider)
//	err = client.Start()        // connects in the background
//	defer client.Close()
//
//	made, err := client.Create(ctx, "/jobs/job-", data,
//		framework.WithParents(), framework.Protected(),
//		framework.WithMode(framework.EphemeralSequential))
//	data, stat, watch, err := client.GetW(ctx, "/config")
//	defer watch.Stop()
//	select {
//	case event := <-watch.Event(): // the node has changed, or the session is over
//	case <-ctx.Done():
//	}
//
// # The nouns
//
// A [Client] keeps one session with an [Ensemble] going after the other, for
// as long as it lives. [Client.Namespace] gives views of it that share all but
// the prefix of their paths. What it knows of its connection is a [State];
// [Client.OnState] delivers all of them, in order, to functions that may block.
//
// A [Session] is what ephemeral nodes live in. It ends when a server says so,
// or at [Session.Deadline], which the client computes by itself, from the time
// at which the last request that was answered had been sent: a process that is
// cut off, or was stopped, stops believing in its session before a server can
// have given it up. A new session is always preceded by [Lost].
//
// A [Watch] waits for the next change of one node. However many watches there
// are on a node, the server holds one. A broken connection costs nothing, for
// what is watched is read again on the next.
//
// # Errors
//
// An operation fails with an [*Error] that has its name, its path and the
// server's code, and wraps one of the package's sentinels or the error of the
// context. Connection losses are retried, by one budget for the whole call;
// what the server has refused is final. [IsUnknown] says that a write may have
// been executed although it failed; the options [Idempotent] and [Protected]
// let a retry recognise its own first try.
//
// # What is not guaranteed
//
//   - That a session seen alive still lives when the next line runs. What must
//     not happen after the end of a session has to be checked where it
//     happens: by the version of a node in [Client.Multi], or by a token.
//   - The deadline assumes that the monotonic clocks of client and servers run
//     at about the same speed; what time they show does not matter. The clock
//     of a stopped process runs on, that of a suspended machine does not.
//   - A watch reports that there was a change, not how many.
//   - Reads may be stale: they are never older than what the session has seen,
//     but a server may lag behind the others until [Client.Sync].
//   - What [Guaranteed] and [Protected] clean up in the background is lost with
//     the process. Ephemeral nodes then end with their session. Of a persistent
//     protected create that was sent in one session and looked for in the next,
//     a server that stalled in between could still make the node.
//   - [Client.Close] without a connection cannot tell a server: the session's
//     nodes stay until its timeout.
//   - No SASL, no reconfiguration, no persistent or recursive watches.
//
// # Limits
//
// [WithMaxInFlight] bounds the requests that await their replies, those that
// their callers have given up included, and with it the memory: each holds no
// more than [WithMaxRequest] bytes until it is written. The reads by which the
// watches are set again after a reconnect come on top; they are small, and no
// more than the watches.
//
// # Inside
//
// The driver, github.com/go-zookeeper/zk, serves a session's dialling,
// handshake, pings and farewell; one zk.Conn is one session. All else goes
// past it: Baton's own frames are put between the driver's, and taken out of
// the stream again, at the [net.Conn] that the driver is given. So every call
// knows on which connection and in which session it ran and can be given up,
// no watch is ever left to the driver, and a driver that makes no progress is
// replaced.
//
// The goroutine that reads a connection decodes replies and wakes callers; it
// never runs code of the user, and never waits for anything but the socket.
//
// Locks are taken in this order: the core's, then a mailbox's; or a hub's,
// then a connection's. The core's is never held together with the hub's or a
// connection's, and none is held while code of the user runs or a socket is
// written to.
package framework
