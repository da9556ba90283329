// Package wire is ZooKeeper's protocol as bytes: frames, records, operation
// codes and error codes. Both ends use it: package framework writes requests
// and reads replies, the embedded server does the reverse.
//
// A frame is a 32-bit length and a body. A request's body is a
// [RequestHeader] and the operation's request record; a reply's body is a
// [ReplyHeader] and, unless the header carries an error, the operation's
// reply record. The first frame in each direction has no header: it is a
// [ConnectRequest] and a [ConnectResponse].
//
// Integers are big-endian; strings and buffers are preceded by their 32-bit
// length, -1 for null; vectors by their 32-bit count. The records are those
// of zookeeper.jute of ZooKeeper 3.8.
package wire
