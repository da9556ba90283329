// Package retry decides whether and when an operation that failed is tried
// again. It knows nothing of ZooKeeper.
//
// A [Policy] says how often and after which waits; it is a small value that
// any number of goroutines may share. [Do] runs an operation under a policy:
//
//	policy := retry.BoundedExponential(100*time.Millisecond, 5*time.Second, 8)
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return ping(ctx)
//	}, retry.If(isConnectionLoss))
//
// Do ends when the operation succeeds, when its error is final (wrapped by
// [Stop], or refused by [If]), when ctx is done, or when the policy is used
// up. In the last case the operation's last error is returned as it is.
//
// # Policies
//
// The names and parameters are Apache Curator's. A policy counts retries, not
// tries: NTimes(3, d) runs the operation up to four times.
//
//	None                 one try, also what the zero Policy means
//	OneTime, NTimes      a fixed number of retries, a fixed wait
//	UntilElapsed         a fixed wait, until a time has passed
//	Forever              a fixed wait, without end
//	Exponential          the wait doubles each time
//	BoundedExponential   the same, up to a longest wait
//
// Waits are scattered, so that clients which lost the same server do not come
// back in step: exponential waits by their full length (anywhere from zero to
// twice the nominal wait), fixed waits by a tenth. [Policy.WithJitter] changes
// that; a jitter of zero makes the waits exact.
//
// # One budget for each call tree
//
// Loops that retry multiply when they nest: twenty tries of something that
// itself tries twenty times are four hundred (CURATOR-559). So Do marks the
// context that it hands to its operation, and a Do below that mark runs its
// own operation exactly once and hands the error up, whatever its policy. The
// outermost loop alone decides. [Fresh] lifts the mark, for work that must go
// through on its own, such as cleaning up.
//
// # What is not promised
//
// Do does not interrupt an operation: it ends in time only if the operation
// heeds its context. An operation that is retried may already have taken
// effect once; making it safe to repeat is the caller's part.
package retry
