// Package health decides, from what the probes of a RADIUS server have shown,
// whether that server is up, and from all servers of a group, which of them
// belong behind the load balancer.
//
// It is pure: no I/O and no clock. Every time in it is the round of a probe, so
// that the same records give the same states however late, often or grouped
// they arrive. Other health checkers act on the result of the check at hand;
// this one acts on the image of a row, so a lost record cannot lose a verdict.
package health
