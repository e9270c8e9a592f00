package remote

import "time"

// Stats counts connections and requests of a cluster and its sessions since Open.
type Stats struct {
	// Sessions is the number of open sessions: one for each consumer, each reader, each producer
	// with a client id, and all others together.
	Sessions int

	Connections    int64 // open at present
	Connects       int64 // connections that were made, including the login
	FailedConnects int64 // attempts that failed

	Requests      int64
	BytesSent     int64
	BytesReceived int64

	// Throttled is the time for which brokers have delayed requests because of a quota, summed over
	// all connections. Kafka: produce-throttle-time-avg, fetch-throttle-time-avg.
	Throttled time.Duration
}

// Stats returns the present counts.
func (c *Cluster) Stats() Stats {
	c.mu.Lock()
	sessions := len(c.sessions)
	c.mu.Unlock()
	n := &c.counters
	return Stats{
		Sessions: sessions, Connections: n.Connections.Load(), Connects: n.Connects.Load(), FailedConnects: n.FailedConnects.Load(),
		Requests: n.Requests.Load(), BytesSent: n.BytesSent.Load(), BytesReceived: n.BytesReceived.Load(), Throttled: time.Duration(n.Throttled.Load()),
	}
}
