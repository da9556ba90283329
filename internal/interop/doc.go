// Package interop lets a test work with lock users in other processes: Apache
// Curator in Java, kazoo in Python, and Baton itself. A [Peer] is such a
// process. It is told what to do by lines on its standard input, and answers by
// lines on its standard output, so that one test can have each take any part.
// What they say of their turns in a lock is a history, which [Check] judges.
//
//	java, err := interop.StartJava(ctx)
//	defer java.Close()
//	_, err = java.Do(ctx, "connect", "127.0.0.1:2181", "10000")
//	_, err = java.Do(ctx, "mutex", "m", "/locks/report")
//	reply, err := java.Do(ctx, "acquire", "m", "1000")
//
// # The protocol
//
// A line is words with one space between them, each word escaped as in a URL's
// query. A request is a tag, a verb and arguments. Its answer, which may come
// after those to later requests, is
//
//	<tag> ok <time> <word>...
//	<tag> err <time> <kind> <text>
//
// and what happens by itself is an event, first of all "ready":
//
//   - <kind> <time> <word>...
//
// Times are nanoseconds of the machine's monotonic clock, which all processes
// share: see [Monotonic]. The verbs, where MS is a number of milliseconds and
// negative for ever:
//
//	connect HOST:PORT MS    a client with that session timeout; the session's ID and timeout in ms
//	disconnect              closes the client and forgets all locks
//	mutex ID PATH           makes a lock, by whose ID it goes from here on
//	readwrite ID PATH       makes two locks of one owner, ID.read and ID.write: the read side is
//	                        a downgrade to who holds the write side
//	semaphoremutex ID PATH
//	semaphore ID PATH LIMIT where LIMIT is a number, or the path of a shared count
//	acquire ID MS [N]       the node's path, the fencing token, and the time of the grant, and for
//	                        each further permit of N its path and token;
//	                        or the error "held", if MS is 0, or "timeout"
//	release ID              all that was acquired at once
//	participants ID         the nodes' paths, in order
//	revocable ID            before acquire: lets the event "revoke ID" tell of requests
//	revoke PATH             asks for revocation
//	contend ID N SEED [HOW] takes N turns in the lock, or in either side of a read-write lock, and
//	                        gives up waiting now and then. HOW is the number of permits that a turn
//	                        takes at most, or "downgrade" to have writers go on as readers
//
// The turns of contend are told by events, see [Peer.Turns]:
//
//	enter ID PERMITS PATH TOKEN ASKED    as in a [Turn]
//	leave ID
//
// Only Java knows
//
//	name NAME               what Curator makes of a node's name: whether it is protected, what is left
//	                        without the protection, and the UUID
//
// Java and kazoo say "state NAME" when the state of their connection changes,
// with their own names for it. Only kazoo knows
//
//	kazoo ID PATH           its lock as it is
//	kazoowaits ID PATH      the same, but it waits for Curator's contenders, too
//
// and has neither semaphores, participants nor revocation. Its mutex and
// readwrite use Curator's names. Only Go says "ended ID KIND TEXT" when a lease
// ends, and knows
//
//	look ID                 what a lease says of itself: see [Look]
//	stop ID                 stops the process, and looks when it goes on
//	token ID                the lease's token, without a look at it
//	revoke PATH REASON [MS] asks with a reason; after MS takes the lock by force. Its holders say
//	                        the reason, too: "revoke ID REASON"
//
// A peer ends when its standard input does, and is killed when the process
// that started it ends. Only Linux is supported.
package interop
