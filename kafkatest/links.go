package kafkatest

import (
	"time"

	"github.com/stratalog/strata/replication"
)

// A Link is the network between two brokers, one way or both. What followers copy goes over it, and
// what leaders ask the controller for; clients and the metadata do not, for them there is Fault. A
// broker that is cut off from the controller is fenced after 9 s, see replication.Network: others
// lead then, until the link is mended.
// Its state is that of the paths: any other Link of the same brokers changes it as well. A Restart
// leaves all links whole. Safe for concurrent use.
type Link struct {
	s     *Server
	paths []replication.NetworkPath
}

// Between returns the link between two brokers, both ways. It fails the test if there are no such
// brokers.
func (s *Server) Between(a, b int32) *Link {
	s.t.Helper()
	return s.link(replication.NetworkPath{From: a, To: b}, replication.NetworkPath{From: b, To: a})
}

// OneWay returns the link from one broker to another, without the way back. A follower asks on the
// path to its leader and is answered on the way back. It fails the test if there are no such
// brokers.
func (s *Server) OneWay(from, to int32) *Link {
	s.t.Helper()
	return s.link(replication.NetworkPath{From: from, To: to})
}

// Around returns all links of a broker, to and from all others that there are. It fails the test if
// there is no such broker.
func (s *Server) Around(broker int32) *Link {
	s.t.Helper()
	s.Addr(broker)
	inner := s.itself()
	inner.mu.Lock()
	defer inner.mu.Unlock()
	var paths []replication.NetworkPath
	for id := range inner.addrs {
		if id != broker {
			paths = append(paths, replication.NetworkPath{From: id, To: broker}, replication.NetworkPath{From: broker, To: id})
		}
	}
	return &Link{s, paths}
}

func (s *Server) link(paths ...replication.NetworkPath) *Link {
	s.t.Helper()
	for _, p := range paths {
		s.Addr(p.From) // a broker that nobody is would be cut off in vain
		s.Addr(p.To)
		if p.From == p.To {
			s.t.Fatalf("kafkatest: there is no link from broker %d to itself", p.From)
		}
	}
	return &Link{s, paths}
}

// Cut loses what is sent from now on, and what is on its way, until Mend: a follower behind it
// leaves the in-sync set after replica.lag.time.max.ms.
func (l *Link) Cut() { l.each((*replication.Network).Cut) }

// Pause holds up what is sent until Mend, and loses nothing. A broker all of whose links are paused
// is fenced when its session is over, as one that is cut off.
func (l *Link) Pause() { l.each((*replication.Network).Pause) }

// Slow makes what is sent take d longer on each way, until Mend or another Slow. It fails the test
// if d is negative.
func (l *Link) Slow(d time.Duration) {
	l.s.t.Helper()
	if d < 0 {
		l.s.t.Fatalf("kafkatest: Slow: %v is negative", d)
	}
	l.each(func(n *replication.Network, p replication.NetworkPath) { n.Slow(p, d) })
}

// Mend undoes Cut, Pause and Slow.
func (l *Link) Mend() { l.each((*replication.Network).Mend) }

func (l *Link) each(do func(*replication.Network, replication.NetworkPath)) {
	if l.s.itself().in.ended() {
		return // nothing goes over it any more
	}
	l.s.within(func(s *Server, _ *visit) {
		n := s.Cluster().Backend().Network()
		for _, p := range l.paths {
			do(n, p)
		}
	})
}
