package producer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// opener opens sessions, which are the cluster itself.
type opener struct {
	producer.Backend // nil: only sessions may be called
	session          producer.Backend
	opened           []producer.Session
	err              error
	ended            int
}

func (o *opener) OpenProducer(s producer.Session) (producer.Backend, func(), error) {
	if o.err != nil {
		return nil, nil, o.err
	}
	o.opened = append(o.opened, s)
	return o.session, func() { o.ended++ }, nil
}

func TestEachProducerHasItsOwnSessionFromNewToClose(t *testing.T) {
	withCluster(t, 1, func(t *testing.T, c *strata.Cluster) {
		o := &opener{session: over(t, c)}
		p, err := producer.New(o, producer.Config{ClientID: "billing", Acks: record.AcksLeader})
		require.NoError(t, err)
		q, err := producer.New(o, producer.Config{Properties: map[string]string{"client.id": "audit"}})
		require.NoError(t, err)
		require.Equal(t, []producer.Session{{ClientID: "billing", Acks: record.AcksLeader}, {ClientID: "audit"}}, o.opened)
		_, err = p.Send(t.Context(), record.String("a", "", "v"))
		require.NoError(t, err)
		require.Zero(t, o.ended)
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		require.Equal(t, 1, o.ended)
		require.NoError(t, q.Close())
		require.Equal(t, 2, o.ended)
	})
}

func TestNewThatFailsLeavesNoSession(t *testing.T) {
	c, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	defer c.Close()
	o := &opener{session: c, err: errors.New("no such client")}
	_, err = producer.New(o, producer.Config{})
	require.ErrorIs(t, err, o.err)
	o.err = nil
	_, err = producer.New(o, producer.Config{TransactionalID: "x"}) // the cluster has no transactions
	var bad *producer.ConfigError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, []producer.Session{{TransactionalID: "x"}}, o.opened)
	require.Equal(t, 1, o.ended)
	_, err = producer.New(o, producer.Config{BatchBytes: -1})
	require.Error(t, err)
	require.Len(t, o.opened, 1, "a bad Config opens none")
}
