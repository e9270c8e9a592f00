package kafkatest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/record"
)

type transform = func(partition int32, offset int64) (record.Record, error)

type transformer = func(ctx context.Context, s *Server, id string, transform transform) error

// forTransform are the options of a client that reads "checked" and writes in transactions.
func forTransform(s *Server, id string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.TransactionalID(id), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("checked"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
}

// results returns the results for records that were read.
func results(rs []*kgo.Record, transform transform) (out []*kgo.Record, err error) {
	for _, r := range rs {
		w, err := transform(r.Partition, r.Offset)
		if err != nil {
			return nil, err
		}
		out = append(out, &kgo.Record{Topic: w.Topic, Key: w.Key, Value: w.Value})
	}
	return out, nil
}

// rightTransformer is a transformer with franz-go's session of a group and transactions.
func rightTransformer(ctx context.Context, s *Server, id string, transform transform) error {
	cl, err := kgo.NewGroupTransactSession(forTransform(s, id)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		rs := cl.PollRecords(ctx, 10).Records()
		if len(rs) == 0 {
			continue
		}
		if err := cl.Begin(); err != nil {
			return err
		}
		out, failed := results(rs, transform)
		if failed == nil {
			failed = cl.ProduceSync(ctx, out...).FirstErr()
		}
		if _, err := cl.End(ctx, kgo.TransactionEndTry(failed == nil)); err != nil && ctx.Err() == nil {
			return err
		}
		if failed != nil && errors.Is(failed, errEnded) {
			return failed
		}
	}
	return nil
}

// committing returns a transformer that commits offsets with the group, outside of transactions:
// before or after it ends them.
func committing(before bool) transformer {
	return func(ctx context.Context, s *Server, id string, transform transform) error {
		cl, err := kgo.NewClient(append(forTransform(s, id), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())...)
		if err != nil {
			return err
		}
		defer cl.CloseAllowingRebalance()
		for ctx.Err() == nil {
			rs := cl.PollRecords(ctx, 10).Records()
			out, err := results(rs, transform)
			if err != nil {
				return err
			}
			commits := func() {
				for _, r := range rs {
					commit(ctx, cl, r)
				}
			}
			if err := cl.BeginTransaction(); err != nil {
				return err
			}
			if err := cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
				return err
			}
			if before {
				commits()
			}
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				return err
			}
			if !before {
				commits()
			}
			cl.AllowRebalance()
		}
		return nil
	}
}

// altering returns rightTransformer with other results.
func altering(alter func(*record.Record) error) transformer {
	return func(ctx context.Context, s *Server, id string, transform transform) error {
		return rightTransformer(ctx, s, id, func(partition int32, offset int64) (record.Record, error) {
			r, err := transform(partition, offset)
			if err == nil {
				err = alter(&r)
			}
			return r, err
		})
	}
}

func TestCheckPassesARightTransformer(t *testing.T) {
	for _, f := range transformFaults {
		t.Run(f.name, func(t *testing.T) {
			// franz-go waits under a mutex for a rebalance: the clock of a bubble would stand still
			if f.joins {
				t.Parallel()
			}
			require.Empty(t, found(t, Code{Transform: rightTransformer, RealTime: f.joins}, f.name))
		})
	}
}

func TestCheckFindsWhatTransformersGetWrong(t *testing.T) {
	keyless := altering(func(r *record.Record) error { r.Key = nil; return nil })
	for _, c := range []struct {
		name      string
		transform transformer
		fault     string
		finds     string
	}{
		{"commits offsets before", committing(true), "undisturbed", ""},
		{"commits offsets before", committing(true), "killed-before-end", "lost"},
		{"commits offsets after", committing(false), "undisturbed", ""},
		{"commits offsets after", committing(false), "killed-after-end", "doubled"},
		{"keyless", keyless, "undisturbed", "altered"},
	} {
		t.Run(c.name+"/"+c.fault, func(t *testing.T) {
			requireFinding(t, c.finds, found(t, Code{Transform: c.transform}, c.fault))
		})
	}
}

// A transformer that commits its output and no offsets is found, whatever it is that fails.
func TestCheckFindsATransformerWithoutOffsets(t *testing.T) {
	none := func(ctx context.Context, s *Server, id string, transform transform) error {
		cl, err := kgo.NewClient(append(forTransform(s, id), kgo.DisableAutoCommit())...)
		if err != nil {
			return err
		}
		defer cl.Close()
		for ctx.Err() == nil {
			out, err := results(cl.PollRecords(ctx, 10).Records(), transform)
			if err == nil {
				err = cl.BeginTransaction()
			}
			if err == nil {
				err = cl.ProduceSync(ctx, out...).FirstErr()
			}
			if err == nil {
				err = cl.EndTransaction(ctx, kgo.TryCommit)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	text := found(t, Code{Transform: none}, "undisturbed")
	require.Contains(t, text, "no group has committed the end of each partition of checked")
	require.Contains(t, text, "doubled 60 of 70")
}
