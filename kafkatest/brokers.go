package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/stratalog/strata/replication"
)

// StopBroker shuts a broker down as Kafka's controlled shutdown does. Another in-sync replica
// becomes leader of each partition that the broker led; a partition without one has no leader until
// StartBroker. Acknowledged records are kept, and clients see their connections to it cut.
// StopBroker returns when the broker is down. It fails the test if the broker does not run, or is
// the last one.
func (s *Server) StopBroker(id int32) {
	s.t.Helper()
	s.change(fmt.Sprintf("StopBroker(%d)", id), func(ctx context.Context, s *Server, r *running) error {
		if err := r.cluster.Backend().StopBroker(ctx, id); err != nil {
			return err
		}
		s.disconnect(r, id)
		return nil
	})
}

// KillBroker ends a broker as a power cut does. First its connections are cut, so that requests in
// progress get no response. Then the broker ends and loses all unsynced data. With Config.Dir in
// the operating system's file system it is like a killed process: data that was written but not
// synced remains. Leaders move as for StopBroker. It fails the test if the broker does not run, or
// is the last one.
func (s *Server) KillBroker(id int32) {
	s.t.Helper()
	s.change(fmt.Sprintf("KillBroker(%d)", id), func(_ context.Context, s *Server, r *running) error {
		up := r.cluster.Backend().Brokers()
		switch serves := slices.Contains(up, id); {
		case serves && len(up) == 1:
			return fmt.Errorf("kill broker %d: %w", id, replication.ErrLastBroker)
		case serves:
			s.disconnect(r, id) // a dead broker answers nothing
			return r.cluster.Backend().KillBroker(id)
		}
		if err := r.cluster.Backend().KillBroker(id); err != nil { // it is down, or fenced
			return err
		}
		s.disconnect(r, id)
		return nil
	})
}

// StartBroker starts a broker that is down, at its former address. It returns when the broker
// serves its partitions. It fails the test if the broker runs already, or cannot be started.
func (s *Server) StartBroker(id int32) {
	s.t.Helper()
	s.change(fmt.Sprintf("StartBroker(%d)", id), func(ctx context.Context, s *Server, r *running) error {
		if err := r.cluster.Backend().StartBroker(ctx, id); err != nil {
			return err
		}
		return s.connect(r, id)
	})
}

// AddBroker adds a broker in a rack, "" for none, and returns its id. Topics and partitions that
// are created later are placed on it too.
func (s *Server) AddBroker(rack string) (id int32) {
	s.t.Helper()
	return s.addBroker(0, rack)
}

// AddBrokerID is AddBroker with a given id of at least 1. It fails the test if the broker exists.
func (s *Server) AddBrokerID(id int32, rack string) {
	s.t.Helper()
	if id < 1 {
		s.t.Fatalf("kafkatest: add a broker: id %d: it must be 1 or higher", id)
	}
	s.addBroker(id, rack)
}

// addBroker adds a broker; id 0: the cluster chooses.
func (s *Server) addBroker(wanted int32, rack string) (id int32) {
	s.t.Helper()
	s.change("AddBroker", func(ctx context.Context, s *Server, r *running) error {
		added, err := r.cluster.Backend().AddBroker(ctx, wanted, replication.BrokerSpec{Rack: rack})
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.racks[added] = rack; rack == "" {
			delete(s.racks, added)
		}
		delete(s.removed, added)
		s.mu.Unlock()
		id = added
		return s.connect(r, added)
	})
	return id
}

// RemoveBroker removes a broker from the cluster permanently. It fails the test if the broker has a
// partition: delete the partition first.
func (s *Server) RemoveBroker(id int32) {
	s.t.Helper()
	s.change(fmt.Sprintf("RemoveBroker(%d)", id), func(ctx context.Context, s *Server, r *running) error {
		if err := r.cluster.Backend().RemoveBroker(ctx, id); err != nil {
			return err
		}
		s.disconnect(r, id)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.addrs, id)
		s.removed[id] = true
		return nil
	})
}

// change starts, stops, adds or removes brokers with fn, one change at a time and none during a
// Restart. The errors of fn name the operation; what names the call of the test.
func (s *Server) change(what string, fn func(context.Context, *Server, *running) error) {
	s.t.Helper()
	s.within(what, func(s *Server, _ *visit) { s.changeBrokers(fn) })
	s.clock.awaitListeners()
}

func (s *Server) changeBrokers(fn func(context.Context, *Server, *running) error) {
	defer s.takeTurn()()
	ctx, cancel := s.waitContext()
	defer cancel()
	s.mu.Lock()
	r := s.running
	s.mu.Unlock()
	var err error
	relabelled(s.label, func() { err = fn(ctx, s, r) })
	if err != nil {
		s.t.Fatalf("kafkatest: %v", err)
	}
}

// connect opens the listener of a started broker and serves it.
func (s *Server) connect(r *running, id int32) error {
	ln, err := s.listen(id)
	if err != nil {
		return fmt.Errorf("listen for broker %d: %w", id, err)
	}
	s.mu.Lock()
	s.addrs[id] = ln.Addr().String()
	s.mu.Unlock()
	return r.serve(map[int32]net.Listener{id: ln})
}

// disconnect closes a broker's listener and connections.
func (s *Server) disconnect(r *running, id int32) {
	r.kafka.CloseBroker(id)
	s.in.sessions.forget(id)
}

// stayRemoved removes brokers again that were removed before a Restart. The cluster has found their
// directories and started them.
func (s *Server) stayRemoved(c *replication.Cluster) error {
	ctx, cancel := s.waitContext()
	defer cancel()
	var errs []error
	for _, id := range c.Brokers() {
		s.mu.Lock()
		removed := s.removed[id]
		s.mu.Unlock()
		if removed {
			errs = append(errs, c.RemoveBroker(ctx, id))
		}
	}
	return errors.Join(errs...)
}
