package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func audit(ctx context.Context, dir string) error {
	l, err := log.Open(dir, log.Config{})
	if err != nil {
		return err
	}
	defer l.Close()
	first, err := l.Append(ctx, record.String("", "user-1", "logged in")) // now on stable storage
	if err != nil {
		return err
	}
	for r, err := range l.Records(first) { // ends at the log end; l.Follow(ctx, first) waits for more
		fmt.Println(r.Offset, string(r.Value), err)
	}
	return nil
}

func TestLogOfTheReadme(t *testing.T) {
	require.NoError(t, audit(t.Context(), t.TempDir()))
}

func bill(ctx context.Context, c strata.Client, charge func(order []byte) error) error {
	member, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
	if err != nil {
		return err
	}
	defer member.Close()
	// Cancelling ctx ends Run without an error.
	return member.Run(ctx, func(ctx context.Context, r record.Record) error {
		return charge(r.Value) // an error ends Run, and r is not committed: the group reads it again
	}, consumer.RunConfig{})
}

func upper(ctx context.Context, in *consumer.Consumer, out *producer.Producer) error {
	// One transaction a batch: the output and the input's offsets appear together or not at all.
	return consumer.Transform(ctx, in, out, func(r record.Record, emit func(record.Record)) error {
		emit(record.Record{Topic: "out", Key: r.Key, Value: bytes.ToUpper(r.Value)})
		return nil
	})
}

// cluster returns a cluster in memory with topics of one partition.
func cluster(t *testing.T, topics ...string) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for _, name := range topics {
		require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
	}
	return c
}

func send(t *testing.T, c *strata.Cluster, records ...record.Record) {
	t.Helper()
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Send(t.Context(), records...)
	require.NoError(t, err)
}

func TestGroupOfTheReadme(t *testing.T) {
	c := cluster(t, "orders")
	send(t, c, record.String("orders", "", "shirt"), record.String("orders", "", "hat"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var charged []string
	require.ErrorContains(t, bill(ctx, c, func([]byte) error { return errors.New("no money") }), "no money")
	require.NoError(t, bill(ctx, c, func(order []byte) error {
		if charged = append(charged, string(order)); len(charged) == 2 {
			cancel()
		}
		return nil
	}))
	require.Equal(t, []string{"shirt", "hat"}, charged)
}

func TestTransformOfTheReadme(t *testing.T) {
	c := cluster(t, "in", "out")
	send(t, c, record.String("in", "k", "shirt"))
	in, err := consumer.New(c, consumer.Config{Group: "upper", Topics: []string{"in"}})
	require.NoError(t, err)
	defer in.Close()
	out, err := producer.New(c, producer.Config{TransactionalID: "upper-0"})
	require.NoError(t, err)
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- upper(ctx, in, out) }()
	for r, err := range consumer.Follow(t.Context(), c, consumer.ReadConfig{Topic: "out"}) {
		require.NoError(t, err)
		require.Equal(t, "k SHIRT", string(r.Key)+" "+string(r.Value))
		break
	}
	cancel()
	require.NoError(t, <-done)
}
