package remote_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/share"
)

// dial connects to the brokers of a check.
func dial(ctx context.Context, s *kafkatest.Server) (*remote.Cluster, error) {
	return remote.Open(ctx, remote.Config{Brokers: s.Addrs(), Dial: s.Dial})
}

func produce(cfg producer.Config) func(context.Context, *kafkatest.Server, []record.Record) error {
	return func(ctx context.Context, s *kafkatest.Server, rs []record.Record) error {
		c, err := dial(ctx, s)
		if err != nil {
			return err
		}
		defer c.Close()
		p, err := producer.New(c, cfg)
		if err != nil {
			return err
		}
		if cfg.TransactionalID != "" {
			send := func(tx *producer.Txn) error { return tx.Send(ctx, rs...) }
			for err = p.Transact(ctx, send); errors.Is(err, producer.ErrAbortable) && ctx.Err() == nil; {
				err = p.Transact(ctx, send) // nothing of an aborted transaction is read
			}
		} else {
			_, err = p.Send(ctx, rs...)
		}
		return errors.Join(err, p.Close())
	}
}

func consume(protocol consumer.Protocol) func(context.Context, *kafkatest.Server, func(int32, int64) error) error {
	return func(ctx context.Context, s *kafkatest.Server, process func(int32, int64) error) error {
		c, err := dial(ctx, s)
		if err != nil {
			return err
		}
		defer c.Close()
		g, err := consumer.New(c, consumer.Config{Group: "checked", Topics: []string{"checked"}, Protocol: protocol})
		if err != nil {
			return err
		}
		defer g.Close()
		for r, err := range g.Records(ctx) {
			if errors.Is(err, remote.ErrUnreachable) {
				continue // a leader has not responded for ten seconds; the loop does not end
			}
			if err == nil {
				err = process(r.Partition, r.Offset)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func transform(protocol consumer.Protocol) func(context.Context, *kafkatest.Server, string, func(int32, int64) (record.Record, error)) error {
	return func(ctx context.Context, s *kafkatest.Server, id string, transform func(int32, int64) (record.Record, error)) error {
		c, err := dial(ctx, s)
		if err != nil {
			return err
		}
		defer c.Close()
		g, err := consumer.New(c, consumer.Config{Group: "checked", Topics: []string{"checked"}, Protocol: protocol})
		if err != nil {
			return err
		}
		defer g.Close()
		p, err := producer.New(c, producer.Config{TransactionalID: id})
		if err != nil {
			return err
		}
		defer p.Close()
		for {
			err := consumer.Transform(ctx, g, p, func(r record.Record, emit func(record.Record)) error {
				out, err := transform(r.Partition, r.Offset)
				if err == nil {
					emit(out)
				}
				return err
			})
			if !errors.Is(err, producer.ErrAbortable) || ctx.Err() != nil {
				return err
			}
		}
	}
}

func work(ctx context.Context, s *kafkatest.Server, work func(int32, int64) (share.AckType, error)) error {
	c, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := consumer.NewShare(c, consumer.ShareConfig{Group: "checked", Topics: []string{"checked"}, Explicit: true})
	if err != nil {
		return err
	}
	defer m.Close()
	for r, err := range m.Records(ctx) {
		if err != nil {
			continue // a broker is down; the loop ends by itself if the error is final
		}
		result, err := work(r.Partition, r.Offset)
		if err != nil {
			return err
		}
		switch result {
		case share.Accept:
			err = m.Accept(ctx, r)
		case share.Release:
			err = m.Release(ctx, r)
		case share.Reject:
			err = m.Reject(ctx, r)
		}
		_ = err // a record that is not acknowledged comes again
	}
	return nil
}

func TestNothingIsLostOrRepeatedUnderFaults(t *testing.T) {
	remote.UseFetchSessionsFrom(t, 1)
	releases := []struct {
		name    string
		release kafkatest.Release
	}{
		{"latest", kafkatest.Latest}, {"Redpanda 24", kafkatest.Redpanda24}, {"Kafka 0.11", kafkatest.Kafka0_11}, {"Kafka 2.0", kafkatest.Kafka2_0},
		{"Kafka 2.8", kafkatest.Kafka2_8}, {"Kafka 3.6", kafkatest.Kafka3_6}, {"Kafka 4.0", kafkatest.Kafka4_0},
	}
	look := func(int) bool { return true }
	if testing.Short() {
		look = sample.OneIn(t, 4)
	}
	for i, r := range releases {
		if i > 0 && !look(i) {
			continue
		}
		cfg := kafkatest.Config{Release: r.release}
		t.Run(r.name, func(t *testing.T) {
			t.Run("idempotent producer", func(t *testing.T) {
				kafkatest.Check(t, kafkatest.Code{Config: cfg, Produce: produce(producer.Config{})})
			})
			t.Run("transaction", func(t *testing.T) {
				kafkatest.Check(t, kafkatest.Code{Config: cfg, Produce: produce(producer.Config{TransactionalID: "id"})})
			})
			t.Run("classic group", func(t *testing.T) {
				kafkatest.Check(t, kafkatest.Code{Config: cfg, Consume: consume(consumer.ProtocolClassic), MayRepeat: true})
			})
			t.Run("transform, classic group", func(t *testing.T) {
				kafkatest.Check(t, kafkatest.Code{Config: cfg, Transform: transform(consumer.ProtocolClassic)})
			})
			if r.release == kafkatest.Latest || r.release == kafkatest.Kafka4_0 {
				t.Run("newer group", func(t *testing.T) {
					kafkatest.Check(t, kafkatest.Code{Config: cfg, Consume: consume(consumer.ProtocolConsumer), MayRepeat: true})
				})
				t.Run("transform, newer group", func(t *testing.T) {
					kafkatest.Check(t, kafkatest.Code{Config: cfg, Transform: transform(consumer.ProtocolConsumer)})
				})
			}
			if r.release == kafkatest.Latest {
				t.Run("share group", func(t *testing.T) {
					kafkatest.Check(t, kafkatest.Code{Config: cfg, Work: work})
				})
			}
		})
	}
}
