package strata_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// onlyClient has the methods of Client, and none of the optional ones that a Cluster has besides.
type onlyClient struct{ strata.Client }

// Checklist row CL3: an application works with the methods of Client alone.
func TestApplicationRunsOnAnyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		shop(t, onlyClient{cluster})
	})
}

// shop is an application: it charges orders, writes invoices in transactions, and prints them as
// members of a share group.
func shop(t *testing.T, c strata.Client) {
	ctx := t.Context()
	require.NotEmpty(t, c.ClusterID())
	for name, partitions := range map[string]int{"orders": 1, "invoices": 2} {
		require.NoError(t, c.CreateTopic(ctx, name, topic.Config{Partitions: partitions}))
		require.NoError(t, c.EnsureTopic(ctx, name, topic.Config{Partitions: partitions}))
	}
	require.NoError(t, c.AddPartitions(ctx, "orders", 2))
	require.NoError(t, c.AlterTopic(ctx, "orders", map[string]string{"retention.ms": "1000000"}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(ctx, record.String("orders", "", "shirt").To(0), record.String("orders", "", "hat").To(1))
	require.NoError(t, err)
	require.NoError(t, p.Close())

	in, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
	require.NoError(t, err)
	out, err := producer.New(c, producer.Config{TransactionalID: "billing-0"})
	require.NoError(t, err)
	charging, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	charged := 0
	require.NoError(t, consumer.Transform(charging, in, out, func(r record.Record, emit func(record.Record)) error {
		emit(record.String("invoices", "", strings.ToUpper(string(r.Value))))
		if charged++; charged == 2 {
			stop()
		}
		return nil
	}))
	require.Equal(t, 2, charged)
	require.NoError(t, out.Close())
	require.NoError(t, in.Close())

	printer, err := consumer.NewShare(c, consumer.ShareConfig{Group: "printers", Topics: []string{"invoices"}})
	require.NoError(t, err)
	printing, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var printed []string
	for r, err := range printer.Records(printing) {
		require.NoError(t, err)
		if printed = append(printed, string(r.Value)); len(printed) == 2 {
			stop()
		}
	}
	require.ElementsMatch(t, []string{"SHIRT", "HAT"}, printed)
	require.NoError(t, printer.Close())

	ends, err := c.Offsets(ctx, "orders", strata.Latest)
	require.NoError(t, err)
	g, err := c.WaitGroup(ctx, "billing", func(g group.Info) bool { return len(g.Members) == 0 })
	require.NoError(t, err)
	for tp, end := range ends {
		require.Equal(t, end, g.Offsets[tp].Offset)
	}
	require.NoError(t, c.DeleteGroup(ctx, "billing"))
	require.NoError(t, c.DeleteTopic(ctx, "orders"))
	require.NoError(t, c.Close())
}
