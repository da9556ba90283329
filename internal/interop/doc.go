// Package interop lets a test work with lock users in other processes: Apache
// Curator in Java, and Baton itself. A [Peer] is such a process. It is told
// what to do by lines on its standard input, and answers by lines on its
// standard output, so that one test can have Java and Go take either part.
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
//	mutex ID PATH           makes a lock, by whose ID it goes from here on; so will other families
//	acquire ID MS           the node's path, the fencing token, and the time of the grant;
//	                        or the error "held", if MS is 0, or "timeout"
//	release ID
//	participants ID         the nodes' paths, in order
//	revocable ID            before acquire: lets the event "revoke ID" tell of requests
//	revoke PATH             asks for revocation
//	contend ID N FILE SEED  takes the lock N times, and makes and removes FILE in each turn;
//	                        the turns, as token:begin:end; or the error "overlap"
//
// Only Java knows
//
//	name NAME               what Curator makes of a node's name: whether it is protected, what is left
//	                        without the protection, and the UUID
//
// and only Go says "ended ID KIND TEXT" when a lease ends, and knows
//
//	look ID                 what a lease says of itself: see [Look]
//	stop ID    stops the process, and looks when it goes on
//	token ID                the lease's token, without a look at it
//
// A peer ends when its standard input does, and is killed when the process
// that started it ends. Only Linux is supported.
package interop
