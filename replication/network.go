package replication

import "github.com/stratalog/strata/replication/internal/follow"

// A Network is what is between the brokers of a cluster: paths, from one broker to another, that
// can be cut, slowed and paused while it runs. What goes over it is what followers fetch, what
// leaders ask the controller for, and a broker's session with the controller; metadata reaches
// every broker.
//
// A broker whose path to the controller, or the path back, is cut or paused for
// Config.SessionTimeout is fenced, if the controller reaches a majority of those that serve: what
// it led is led by replicas in sync, or by nobody, and clients are sent there. It runs on,
// acknowledges nothing, with whatever acks, and serves again as soon as both paths are mended.
// Until it is fenced it takes acks=1 and 0, and what it has not replicated is cut off when it is
// back. If another broker reaches more than the controller does, and a majority, it is controller
// from then on; so a cut between two of three brokers costs nobody. If nobody reaches a majority,
// as in two halves, nobody is fenced and the controller stays; what cannot be replicated waits.
// Slow paths end no session.
type Network = follow.Network

// A NetworkPath is the way from one broker to another.
type NetworkPath = follow.Path

// Network returns what is between the cluster's brokers.
func (c *Cluster) Network() *Network { return &c.network }
