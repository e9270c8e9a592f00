package replication

import "github.com/stratalog/strata/replication/internal/follow"

// A Network connects the brokers of a cluster. It has a path from each broker to each other one,
// which can be cut, slowed and paused while the cluster runs. It carries the fetches of followers,
// the requests of leaders to the controller, and each broker's session with the controller. The
// metadata does not use it and reaches every broker.
//
// The controller fences a broker if the path to it, or the path back, is cut or paused for
// Config.SessionTimeout, and the controller reaches a majority of the serving brokers. In-sync
// replicas take over the partitions that the broker led, or these have no leader; clients are
// redirected. The fenced broker keeps running, acknowledges no write with any acks, and serves
// again as soon as both paths are mended.
//
// Until a broker is fenced it accepts writes with acks=1 and acks=0. Records that it has not
// replicated by then are truncated when it returns. If another broker reaches a majority, and more
// brokers than the controller does, it becomes the controller: a cut between two of three brokers
// has no effect on clients. If no broker reaches a majority, as in two halves, no broker is fenced
// and the controller stays; records that cannot be replicated wait. Slow paths end no session.
type Network = follow.Network

// A NetworkPath is the path from one broker to another.
type NetworkPath = follow.Path

// Network returns the network between the cluster's brokers.
func (c *Cluster) Network() *Network { return &c.network }
