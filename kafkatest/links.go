package kafkatest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/replication"
)

// A Link is the network between two brokers, in one or both directions. It carries the fetches of
// followers and the requests of leaders to the controller. It carries neither requests of clients,
// for which there is Fault, nor metadata. A broker that is cut off from the controller is fenced
// after 9 s, see replication.Network; other brokers lead its partitions until the link is mended.
//
// The state belongs to the paths, not to the Link: another Link of the same brokers changes it too.
// Restart mends all links. A Link is safe for concurrent use.
type Link struct {
	s     *Server
	paths []replication.NetworkPath
}

// Between returns the link between two brokers in both directions. It fails the test if one of the
// brokers does not exist.
func (s *Server) Between(a, b int32) *Link {
	s.t.Helper()
	return s.link(replication.NetworkPath{From: a, To: b}, replication.NetworkPath{From: b, To: a})
}

// OneWay returns the link from one broker to another, without the opposite direction. A follower's
// fetches use the path to its leader, and the responses the opposite one. It fails the test if one
// of the brokers does not exist.
func (s *Server) OneWay(from, to int32) *Link {
	s.t.Helper()
	return s.link(replication.NetworkPath{From: from, To: to})
}

// Around returns the links between a broker and all present others, in both directions. It fails
// the test if the broker does not exist.
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
		s.Addr(p.From) // fails for an unknown broker, whose link would have no effect
		s.Addr(p.To)
		if p.From == p.To {
			s.t.Fatalf("kafkatest: there is no link from broker %d to itself", p.From)
		}
	}
	return &Link{s, paths}
}

// Cut drops all messages, including those in flight, until Mend. A follower behind the link leaves
// the in-sync set after replica.lag.time.max.ms.
func (l *Link) Cut() { l.each("Cut", (*replication.Network).Cut) }

// Pause delays all messages until Mend, and drops none. A broker whose links are all paused is
// fenced when its session expires, as if it were cut off.
func (l *Link) Pause() { l.each("Pause", (*replication.Network).Pause) }

// Slow delays each message by d, until Mend or another Slow. It fails the test if d is negative.
func (l *Link) Slow(d time.Duration) {
	l.s.t.Helper()
	if d < 0 {
		l.s.t.Fatalf("kafkatest: Slow: %v is negative", d)
	}
	l.each(fmt.Sprintf("Slow by %v", d), func(n *replication.Network, p replication.NetworkPath) { n.Slow(p, d) })
}

// Mend undoes Cut, Pause and Slow.
func (l *Link) Mend() { l.each("Mend", (*replication.Network).Mend) }

func (l *Link) each(what string, do func(*replication.Network, replication.NetworkPath)) {
	if l.s.itself().in.ended() {
		return // the servers have stopped, and with them the network
	}
	l.s.within(what+" "+l.String(), func(s *Server, _ *visit) {
		n := s.Cluster().Backend().Network()
		for _, p := range l.paths {
			do(n, p)
		}
	})
}

// String names the paths of the link.
func (l *Link) String() string {
	paths := make([]string, len(l.paths))
	for i, p := range l.paths {
		paths[i] = fmt.Sprintf("%d→%d", p.From, p.To)
	}
	slices.Sort(paths)
	return strings.Join(paths, ", ")
}
