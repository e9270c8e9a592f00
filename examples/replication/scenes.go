package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// send writes one record and waits for its acknowledgement.
func (s *story) send(ctx context.Context, acks record.Acks, value string) error {
	p, err := producer.New(s.cluster, producer.Config{Acks: acks})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, record.String("orders", "", value))
	return errors.Join(err, p.Close())
}

func write(ctx context.Context, s *story) error {
	s.say("Three brokers have a replica of the partition. A producer writes three records and waits for all in-sync replicas (acks=all).")
	for _, v := range []string{"ann pays 10", "bob pays 20", "cid pays 30"} {
		if err := s.send(ctx, record.AcksAll, v); err != nil {
			return err
		}
	}
	s.replicas()
	return nil
}

// killLeader writes a record that only the leader gets, and cuts the leader's power.
func killLeader(ctx context.Context, s *story) error {
	s.say("A fourth record is acknowledged by the leader alone (acks=1), and does not reach the followers. Then the leader loses power.")
	for _, follower := range []int32{2, 3} {
		s.cluster.Network().Cut(replication.NetworkPath{From: follower, To: 1})
	}
	if err := s.send(ctx, record.AcksLeader, "dan pays 40"); err != nil {
		return err
	}
	if err := s.cluster.KillBroker(1); err != nil {
		return err
	}
	for _, follower := range []int32{2, 3} {
		s.cluster.Network().Mend(replication.NetworkPath{From: follower, To: 1})
	}
	s.until(func(e replication.Event) bool { return e.Kind == replication.LeaderElected })
	s.say("The other two continue. Another record, acknowledged by both:")
	if err := s.send(ctx, record.AcksAll, "eve pays 50"); err != nil {
		return err
	}
	s.replicas()
	return nil
}

func revive(ctx context.Context, s *story) error {
	s.say("The broker returns as a follower. It discards the records that its leader does not have, and then catches up.")
	if err := s.cluster.StartBroker(ctx, 1); err != nil {
		return err
	}
	s.until(joined(1))
	s.replicas()
	s.say("A consumer reads: dan's payment, which only one broker had acknowledged, is lost. The others are not.")
	for r, err := range consumer.Read(ctx, s.cluster, consumer.ReadConfig{Topic: "orders"}) {
		if err != nil {
			return err
		}
		s.say("    %d  %s", r.Offset, r.Value)
	}
	s.say("")
	return nil
}

// slowFollower delays the fetches of a follower: records wait for it until it is no longer in sync.
func slowFollower(ctx context.Context, s *story) error {
	path := replication.NetworkPath{From: 3, To: s.cluster.Status(orders).Leader}
	s.say("Broker 3 hangs. A record waits for it, until it leaves the in-sync set (replica.lag.time.max.ms, 400 here):")
	s.cluster.Network().Pause(path)
	begin := time.Now()
	if err := s.send(ctx, record.AcksAll, "fay pays 60"); err != nil {
		return err
	}
	s.until(func(e replication.Event) bool {
		return e.Kind == replication.ISRShrunk && slices.Contains(e.Brokers, 3)
	})
	s.say("  acknowledged after %d ms by the other two; the next record does not wait.", time.Since(begin).Milliseconds())
	if err := s.send(ctx, record.AcksAll, "gus pays 70"); err != nil {
		return err
	}
	s.replicas()
	s.say("Broker 3 continues, catches up, and is in sync again:")
	s.cluster.Network().Mend(path)
	s.until(joined(3))
	s.replicas()
	return nil
}

// joined reports whether an event is that a broker joins the in-sync set.
func joined(broker int32) func(replication.Event) bool {
	return func(e replication.Event) bool {
		return e.Kind == replication.ISRGrown && slices.Contains(e.Brokers, broker)
	}
}
