// Package apache starts real Apache ZooKeeper servers as local child
// processes, one alone or an ensemble, for tests and benchmarks. It kills,
// pauses, restarts and wipes them.
//
//	ens, err := apache.Start(ctx, 3)
//	if err != nil {
//		return err
//	}
//	defer ens.Close()
//
//	leader, err := ens.Leader(ctx)
//	...
//	err = leader.Kill()
//
// An [Ensemble] is also a provider of servers, like those of package ensemble,
// and can be handed to a client as it is.
//
// # What it needs
//
// The servers come from Debian's package zookeeper; [Installed] says whether
// it is there, and what to install if not. Only Linux is supported.
//
// # How the servers are set up
//
// They listen on 127.0.0.1 only, on free ports, and keep their data and logs in
// a temporary folder. They are tuned for tests: a tick of 100 ms, so that
// session timeouts from 200 ms to one minute can be had; no fsync; all
// four-letter words; TTL nodes; no limit on connections. [Option] changes
// that.
//
// # What is not promised
//
// With fsync off, data survives the death of a process but not that of the
// machine. The servers die with the process that started them, whatever way it
// ends, but if it is killed the temporary folder stays behind.
package apache
