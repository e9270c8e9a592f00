package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// jobs opens a cluster with topic "jobs", which has one partition and n records with their numbers
// as values.
func jobs(t *testing.T, n int) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "jobs", topic.Config{}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range n {
		_, err := p.Send(t.Context(), record.String("jobs", "", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	return c
}

func newShare(t *testing.T, c *strata.Cluster, cfg consumer.ShareConfig) *consumer.Share {
	t.Helper()
	cfg.Group = "g"
	s, err := consumer.NewShare(c, cfg)
	require.NoError(t, err)
	return s
}

func shareValues(recs []consumer.ShareRecord) (all []string) {
	for _, r := range recs {
		all = append(all, string(r.Value))
	}
	return all
}

// Checklist row S23: a worker continues with the existing topics, whatever happens to the others.
func TestAWorkerGoesOnWithTheTopicsThatThereAre(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, c *strata.Cluster){
		"the other one is gone": func(*testing.T, *strata.Cluster) {},
		"and it is created again": func(t *testing.T, c *strata.Cluster) {
			require.NoError(t, c.DeleteTopic(t.Context(), "jobs"))
			require.NoError(t, c.CreateTopic(t.Context(), "jobs", topic.Config{Partitions: 2}))
		},
		"and it grows": func(t *testing.T, c *strata.Cluster) { require.NoError(t, c.AddPartitions(t.Context(), "jobs", 2)) },
	} {
		for _, waiting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waiting=%t", name, waiting), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := jobs(t, 1)
					defer func() { require.NoError(t, c.Close()) }()
					require.NoError(t, c.CreateTopic(t.Context(), "mails", topic.Config{}))
					s := newShare(t, c, consumer.ShareConfig{Topics: []string{"jobs", "mails"}})
					defer s.Close()
					recs, err := s.Poll(t.Context())
					require.NoError(t, err)
					require.NoError(t, s.Accept(t.Context(), recs...))
					p, err := producer.New(c, producer.Config{})
					require.NoError(t, err)
					defer p.Close()
					disturb := func() {
						change(t, c)
						require.NoError(t, c.DeleteTopic(t.Context(), "mails"))
						part := int32(1)
						if name == "the other one is gone" {
							part = 0
						}
						_, err := p.Send(t.Context(), record.String("jobs", "", "work").To(part))
						require.NoError(t, err)
					}
					began := time.Now()
					if waiting {
						time.AfterFunc(1234*time.Millisecond, disturb)
					} else {
						disturb()
					}
					recs, err = s.Poll(t.Context())
					require.NoError(t, err)
					require.Equal(t, []string{"work"}, shareValues(recs))
					require.Less(t, time.Since(began), 7*time.Second)

					require.NoError(t, c.CreateTopic(t.Context(), "mails", topic.Config{}))
					_, err = p.Send(t.Context(), record.String("mails", "", "again"))
					require.NoError(t, err)
					recs, err = s.Poll(t.Context())
					require.NoError(t, err)
					require.Equal(t, []string{"again"}, shareValues(recs))
					require.NoError(t, c.DeleteTopic(t.Context(), "mails"))
					require.NoError(t, c.DeleteTopic(t.Context(), "jobs"))
					_ = s.Release(t.Context(), recs...)
					_, err = s.Poll(t.Context())
					require.ErrorIs(t, err, consumer.ErrUnknownTopic, "there is none at all")
				})
			})
		}
	}
}

// doneContext reports an error when checked, but does not close its channel: a wait on it
// continues.
type doneContext struct{ context.Context }

func (doneContext) Err() error { return context.Canceled }

// Checklist row S23: records that were acquired when the context of a Poll ended are not accepted
// by the next Poll: the caller has not seen them.
func TestWhatIsAcquiredWhenAPollEndsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := jobs(t, 3)
		defer func() { require.NoError(t, c.Close()) }()
		s := newShare(t, c, consumer.ShareConfig{Topics: []string{"jobs"}, MaxRecords: 1})
		recs, err := s.Poll(doneContext{t.Context()})
		require.NoError(t, err)
		require.Equal(t, []string{"0"}, shareValues(recs))
		for range s.Records(doneContext{t.Context()}) {
			require.Fail(t, "it was done")
		}
		ended := time.Now()
		recs, err = s.Poll(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(ended), time.Second, "1 is not locked any more")
		require.Equal(t, []string{"1"}, shareValues(recs), "0 is accepted by the loop, 1 was given back")
		require.Equal(t, 1, recs[0].Deliveries, "no body had it")
		require.NoError(t, s.Close())
	})
}
