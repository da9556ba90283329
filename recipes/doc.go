// Package recipes has Curator's recipes for Go: coordination among processes
// by way of Apache ZooKeeper.
//
// What is held is a value. A [Lease] knows when it ends, its contexts end with
// it, and its fencing token lets a resource refuse a holder that has not
// noticed yet:
//
//	mutex := recipes.NewInterProcessMutex(client, "/locks/nightly-report")
//
//	lease, err := mutex.Acquire(ctx) // ctx bounds the wait, not the hold
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
//	ctx = lease.Context(ctx)              // ends when the lock is lost, too
//	store.Put(ctx, row, lease.Token())    // fencing outside ZooKeeper
//	client.Multi(ctx, lease.Check(), op)  // fencing inside ZooKeeper
//
// There are [InterProcessMutex], [InterProcessReadWriteLock],
// [InterProcessSemaphore] and [InterProcessSemaphoreMutex];
// [InterProcessMultiLock] makes one of several. The methods Participants and
// Explain tell who holds and who waits, [WithWaitListener] how a wait gets on, and
// [Revoke] asks a holder to go.
//
// # The line
//
// Contenders of a lock stand in a line: each makes an ephemeral sequential
// node under the lock's path, in the form of Curator's recipes, and watches
// none but the one it stands behind. So one release wakes one contender, and
// with two of them a hand-off is a single message. Children of the lock's path
// that are no contenders are ignored, and a contender's node that is not
// ephemeral, which nobody alive owns, is passed over; both are logged as
// warnings.
//
// An [InterProcessSemaphore] has such a line too: whoever is first in it waits
// for as many permits as it wants, and gets all of them at once.
//
// Readers and writers of an [InterProcessReadWriteLock] stand in one line. A
// writer waits for all ahead of it, a reader for writers ahead of it only, so
// that one release may wake many readers, and a writer may become a reader in
// its place.
//
// # Held, unknown, lost
//
// A lease lives in its client's session. While the connection is gone it is
// unknown; once the session's deadline has passed, by this process's own
// clock, it is lost. The deadline lies before the moment at which servers that
// are in touch with one another end the session and give the lock to another.
// Whoever would rather stop at the first doubt uses [EndWhenUnknown].
//
// # Fencing
//
// A holder that was paused between its last look and its write finds the lock
// with somebody else, and writes all the same. Only the resource can refuse
// it. It keeps the highest [Lease.Token] that it has seen, with its data, and in
// one step with each write compares: a higher token is stored, an equal one is
// the same hold and accepted, a lower one refused. In SQL that is one statement,
// in the transaction of the writes, which changes no row if the token is stale:
//
//	INSERT INTO fence (resource, token) VALUES ($1, $2)
//	ON CONFLICT (resource) DO UPDATE SET token = excluded.token
//	WHERE fence.token <= excluded.token
//
// The resource hears of a holder by its first request. So one that reads in
// order to write sends the token before it reads. In ZooKeeper [Lease.Check]
// does it all. The page docs/fencing.md has HTTP, object stores, other
// databases and the limits; examples/fencing is a program that shows it.
//
// All that is for one holder at a time. The tokens of readers who hold together
// have no order to fence one from another: compare them with the highest of a
// writer, and store none. Of a semaphore several permits are out, so that to
// refuse all below the largest token would refuse holders: what must have one
// writer needs a lock.
//
// # Worker numbers and IDs
//
// [WorkerIDs] gives each process a number that no other has at the time. A
// [Snowflake] makes IDs of it whose time was reserved for that number by a
// committed compare-and-set, so that they are unique whatever clocks, pauses and
// sessions do. docs/ids.md says how.
//
// # Numbers
//
// [SequenceIDs] give the natural numbers one by one, in one order among all
// processes; [BlockIDs] give them from blocks that each process reserves, millions
// a second. Their roots, and those of locks, are kept out of each other, see
// [ErrWrongRoot].
//
// # What is not guaranteed
//
// A lock in a distributed system cannot stop the holder. Between a look at the
// lease and what is done on the strength of it, the process may be paused or a
// packet may be under way for longer than the session lasts. A select that was
// waiting when the process was stopped is no look; a call of the context's Err
// before each step is.
//
// Nor does the local deadline help against a fault among the servers: one that is
// cut off from its leader goes on answering pings for up to syncLimit × tickTime,
// and where that is longer than the session timeout, the leader may have ended
// the session and let the next one in meanwhile.
//
// What must not be written by two holders needs a resource that compares
// tokens, or [Lease.Check] if the resource is ZooKeeper.
//
// Order is by when the server took in a contender's node, not by when Acquire
// was called. One who lost the session while waiting, or whose node was
// deleted by an outsider, joins again at the end.
//
// Curator itself does count foreign children and dead contenders: among mixed
// processes, keep a lock's path for the lock alone.
package recipes
