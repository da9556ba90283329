// Package ensemble tells a client where the servers of a ZooKeeper ensemble
// are found.
//
// A provider is made from a connect string, as every ZooKeeper client takes
// it: servers separated by commas, then perhaps a chroot, the path below which
// the client sees everything.
//
//	provider, err := ensemble.NewFixed("zk1:2181,zk2:2181,[2001:db8::7]:2181/app")
//
// Each call of Servers gives the addresses for one round of attempts, freshly
// shuffled, so that a fleet spreads over the ensemble.
//
//   - [Fixed] gives the list as it was written. Host names go to the dialer as
//     they are, and are resolved there, at each attempt, to whatever the
//     dialer prefers.
//   - [DNS] resolves every name anew at each call and gives all addresses, so
//     that one name may stand for a whole ensemble whose members come and go.
//
// # The connect string
//
// Blanks around the string and around each entry are ignored. An entry is a
// host name, an IPv4 address, or an IPv6 address in brackets; the port is 2181
// unless it follows after a colon. Entries that occur twice count once. The
// chroot begins at the first slash; "/" alone means none. Everything else is
// refused by the constructor, before any I/O, with an error that matches
// [ErrConnectString] and names the value.
//
// # TLS
//
// The addresses are of type [Address], whose ServerName is the host as it was
// written, also where String is an IP address found by DNS. It is the name to
// verify a certificate against.
//
// # What is not promised
//
// Providers do not check that a server is there, remember which one failed, or
// pause between rounds; the client does. They hold no state and need no Close.
package ensemble
