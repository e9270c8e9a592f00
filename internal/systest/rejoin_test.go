package systest

import (
	"context"
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

// joins is a cluster that calls before ahead of each Join.
type joins struct {
	*strata.Cluster
	before func()
}

func (j *joins) Join(ctx context.Context, r group.JoinRequest) (group.JoinResponse, error) {
	j.before()
	return j.Cluster.Join(ctx, r)
}

// Checklist row G10. A member that is closed between join and sync cannot commit. The periodic
// commit is an hour away.
func TestMemberCommitsWhatItHasProcessedBeforeItJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 1}))
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		defer p.Close()
		for range 3 {
			_, err := p.Send(ctx, record.String("orders", "", "v"))
			require.NoError(t, err)
		}
		tp := record.TopicPartition{Topic: "orders"}
		var committed []int64 // ahead of each Join
		link := &joins{Cluster: c, before: func() {
			at, err := c.FetchOffsets(ctx, "billing", []record.TopicPartition{tp})
			require.NoError(t, err)
			committed = append(committed, at[tp].Offset)
		}}
		member, err := consumer.New(link, consumer.Config{Group: "billing", Topics: []string{"orders"}, CommitInterval: time.Hour})
		require.NoError(t, err)
		defer member.Close()
		go func() {
			for range member.Records(ctx) {
			}
		}()
		_, err = c.WaitGroup(ctx, "billing", group.StableWith(1))
		require.NoError(t, err)
		time.Sleep(time.Second)

		other, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
		require.NoError(t, err)
		defer other.Close()
		go func() {
			for range other.Records(ctx) {
			}
		}()
		_, err = c.WaitGroup(ctx, "billing", group.StableWith(2))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(committed), 2)
		require.Equal(t, int64(-1), committed[0])
		require.Equal(t, int64(3), committed[1])
	})
}
