package remote_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// unreachable are the ways in which brokers that were there go away.
var unreachable = map[string]func(ctx context.Context) (net.Conn, error){
	"no route": func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"silent": func(context.Context) (net.Conn, error) {
		client, server := memnet.Pipe(memnet.Addr("client:1"), memnet.Addr("server:1"))
		go func() {
			_, _ = io.Copy(io.Discard, server)
			server.Close()
		}()
		return client, nil
	},
	"closing": func(context.Context) (net.Conn, error) {
		client, server := memnet.Pipe(memnet.Addr("client:1"), memnet.Addr("server:1"))
		go func() {
			_, _ = server.Read(make([]byte, 1))
			server.Close()
		}()
		return client, nil
	},
	"refused": func(context.Context) (net.Conn, error) {
		return (&memnet.Network{}).Dial(context.Background(), "tcp", "127.0.0.1:1")
	},
}

// calls are calls without a deadline.
var calls = map[string]func(ctx context.Context, c *remote.Cluster) error{
	"Metadata":      func(ctx context.Context, c *remote.Cluster) error { _, err := c.Metadata(ctx, "t"); return err },
	"Topics":        func(ctx context.Context, c *remote.Cluster) error { _, err := c.Topics(ctx); return err },
	"Topic":         func(ctx context.Context, c *remote.Cluster) error { _, err := c.Topic(ctx, "t"); return err },
	"CreateTopic":   func(ctx context.Context, c *remote.Cluster) error { return c.CreateTopic(ctx, "u", topic.Config{}) },
	"EnsureTopic":   func(ctx context.Context, c *remote.Cluster) error { return c.EnsureTopic(ctx, "t", topic.Config{}) },
	"DeleteTopic":   func(ctx context.Context, c *remote.Cluster) error { return c.DeleteTopic(ctx, "t") },
	"AddPartitions": func(ctx context.Context, c *remote.Cluster) error { return c.AddPartitions(ctx, "t", 9) },
	"Groups":        func(ctx context.Context, c *remote.Cluster) error { _, err := c.Groups(ctx); return err },
	"Group":         func(ctx context.Context, c *remote.Cluster) error { _, err := c.Group(ctx, "g"); return err },
	"DeleteGroup":   func(ctx context.Context, c *remote.Cluster) error { return c.DeleteGroup(ctx, "g") },
	"FetchOffsets": func(ctx context.Context, c *remote.Cluster) error {
		_, err := c.FetchOffsets(ctx, "g", nil)
		return err
	},
	"Offsets": func(ctx context.Context, c *remote.Cluster) error {
		_, err := c.Offsets(ctx, "t", partition.Latest)
		return err
	},
	"InitProducerID": func(ctx context.Context, c *remote.Cluster) error { _, _, err := c.InitProducerID(ctx); return err },
	"CommitOffsets": func(ctx context.Context, c *remote.Cluster) error {
		_, err := c.CommitOffsets(ctx, group.CommitRequest{Group: "g", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{{Topic: "t"}: {Offset: 1}}})
		return err
	},
	"InitTransactions": func(ctx context.Context, c *remote.Cluster) error {
		_, _, err := c.TxnCoordinator().InitProducerID(ctx, "x", time.Minute, transaction.NoProducer)
		return err
	},
	"Join": func(ctx context.Context, c *remote.Cluster) error {
		_, err := c.Join(ctx, group.JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second})
		return err
	},
	"Heartbeat": func(ctx context.Context, c *remote.Cluster) error {
		return c.Heartbeat(ctx, group.HeartbeatRequest{Group: "g", MemberID: "m"})
	},
	"ListOffsets": func(ctx context.Context, c *remote.Cluster) error {
		got, err := c.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{{Topic: "t"}: partition.Latest}, partition.ReadUncommitted)
		if err == nil {
			err = got[record.TopicPartition{Topic: "t"}].Err
		}
		return err
	},
	"DeleteRecords": func(ctx context.Context, c *remote.Cluster) error {
		_, err := c.DeleteRecords(ctx, map[record.TopicPartition]int64{{Topic: "t"}: 0})
		return err
	},
}

func TestCallsWithoutADeadlineReportUnreachableBrokersWithin30Seconds(t *testing.T) {
	for how, dial := range unreachable {
		for name, call := range calls {
			t.Run(how+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 3, 3, kafka.Config{})
					var mu sync.Mutex // guards the variables below
					var gone bool
					var conns []net.Conn
					alive := w.cfg.Dial
					w.cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if _, ok := ctx.Deadline(); !ok {
							t.Error("a connection may take for ever")
						}
						conn, err := alive(ctx, network, addr)
						if err != nil {
							return nil, err
						}
						mu.Lock()
						if !gone {
							defer mu.Unlock()
							conns = append(conns, conn)
							return conn, nil
						}
						mu.Unlock()
						conn.Close()
						return dial(ctx)
					}
					c := w.open(t)
					_, err := c.Metadata(t.Context(), "t")
					require.NoError(t, err)
					mu.Lock()
					gone = true
					for _, conn := range conns {
						conn.Close()
					}
					mu.Unlock()
					began := time.Now()
					err = call(t.Context(), c)
					require.ErrorIs(t, err, remote.ErrUnreachable)
					require.LessOrEqual(t, time.Since(began), 30*time.Second)
				})
			})
		}
	}
}
