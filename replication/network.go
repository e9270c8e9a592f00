package replication

import "github.com/stratalog/strata/replication/internal/follow"

// A Network is what is between the brokers of a cluster: paths, from one broker to another, that
// can be cut, slowed and paused while it runs. What goes over it is what followers fetch, and what
// leaders ask the controller for; metadata reaches every broker.
type Network = follow.Network

// A NetworkPath is the way from one broker to another.
type NetworkPath = follow.Path

// Network returns what is between the cluster's brokers.
func (c *Cluster) Network() *Network { return &c.network }
