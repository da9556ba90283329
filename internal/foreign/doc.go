// Package foreign holds tests only: clients that nobody here wrote use the
// embedded server over TCP, and then a real ZooKeeper server, and have to see
// the same. They are Apache's Java client through Curator 5.4, kazoo, and
// zkCli.sh, as Debian packages them, and are required when BATON_APACHE is 1.
package foreign
