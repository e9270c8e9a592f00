package remote_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

func TestShareGroupDoesEachJobOnce(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 200)
		var mu sync.Mutex
		did, workers := map[string]int{}, map[int]bool{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var all sync.WaitGroup
		for n := range 3 {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
			require.NoError(t, err)
			all.Go(func() {
				for r, err := range s.Records(ctx) {
					require.NoError(t, err)
					mu.Lock()
					did[string(r.Value)]++
					workers[n] = true
					if len(did) == 200 {
						stop()
					}
					mu.Unlock()
					time.Sleep(100 * time.Millisecond) // the work
				}
				require.NoError(t, s.Close())
			})
		}
		all.Wait()
		once(t, did, 200)
		require.Len(t, workers, 3)
	})
}

// A batch of the log may have more records than the poll takes. The others are for other members,
// and are not counted as delivered.
func TestShareMemberLocksAtMostMaxRecords(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 200)
		did := map[string]int{}
		var members []*consumer.Share
		for range 4 {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, MaxRecords: 10})
			require.NoError(t, err)
			members = append(members, s)
			recs, err := s.Poll(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, len(recs), 10)
			for _, r := range recs {
				did[string(r.Value)]++
			}
		}
		for _, s := range members {
			require.NoError(t, s.Close()) // releases its records
		}
		last, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
		require.NoError(t, err)
		all := map[string]int{}
		for r, err := range last.Records(t.Context()) {
			require.NoError(t, err)
			require.LessOrEqual(t, r.Deliveries, did[string(r.Value)]+1)
			if all[string(r.Value)]++; len(all) == 200 {
				break
			}
		}
		once(t, all, 200)
		require.NoError(t, last.Close())
	})
}

func TestReleasedAndRejectedRecordsOfAShareGroup(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 3)
		s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, Explicit: true})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		deliveries := map[string]int{}
		for accepted := 0; accepted < 2; {
			recs, err := s.Poll(ctx)
			require.NoError(t, err)
			for _, r := range recs {
				deliveries[string(r.Value)]++
				require.Equal(t, deliveries[string(r.Value)], r.Deliveries)
				switch {
				case string(r.Value) == "0":
					require.NoError(t, s.Reject(ctx, r))
				case string(r.Value) == "1" && deliveries["1"] == 1:
					require.NoError(t, s.Release(ctx, r))
				default:
					require.NoError(t, s.Accept(ctx, r))
					accepted++
				}
			}
		}
		require.Equal(t, map[string]int{"0": 1, "1": 2, "2": 1}, deliveries)
		ends, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err = s.Poll(ends)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is left")
		require.NoError(t, s.Close())
	})
}

func TestRecordsOfAShareMemberThatLeavesAreDeliveredToAnother(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 10)
		first, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, Explicit: true})
		require.NoError(t, err)
		_, err = first.Poll(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Close())
		second, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
		require.NoError(t, err)
		began, got := time.Now(), map[string]int{}
		for r, err := range second.Records(t.Context()) {
			require.NoError(t, err)
			if got[string(r.Value)]++; len(got) == 10 {
				break
			}
		}
		require.Less(t, time.Since(began), 10*time.Second, "without waiting for locks")
		require.NoError(t, second.Close())
	})
}

func TestShareGroupOfAnUnknownTopicIsRefused(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		_, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"unknown"}})
		require.ErrorIs(t, err, replication.ErrUnknownTopic)
	})
}

func TestShareMemberBeginsWhereItsConfigSays(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 5)
		time.Sleep(time.Hour)
		for name, from := range map[string]consumer.Reset{"earliest": consumer.Earliest(), "latest": consumer.Latest(), "time": consumer.At(time.Now().Add(-time.Minute))} {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: name, Topics: []string{"t"}, Reset: from})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			recs, err := s.Poll(ctx)
			cancel()
			if name == "earliest" {
				require.NoError(t, err)
				require.NotEmpty(t, recs)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded, fmt.Sprint(name, recs))
			}
			require.NoError(t, s.Close())
		}
	})
}

func TestShareMemberWaitsForACoordinatorThatIsLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 1}})
		loading := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareGroupHeartbeat}, Code: kafka.CoordinatorNotAvailable, Times: 3})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		m, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
		require.NoError(t, err)
		require.Equal(t, 3, loading.Hits())
		require.NoError(t, m.Close())
		loading = s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareGroupHeartbeat}, Code: kafka.GroupAuthorizationFailed, Times: kafkatest.Always})
		_, err = consumer.NewShare(c, consumer.ShareConfig{Group: "others", Topics: []string{"t"}})
		require.ErrorIs(t, err, remote.ErrNotAuthorized)
		require.Equal(t, 1, loading.Hits(), "a final error is not tried again")
		require.NoError(t, c.Close())
	})
}

func TestAcknowledgementsThatWaitShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 2}})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		fill(t, c, 100)
		m, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, Explicit: true})
		require.NoError(t, err)
		var recs []consumer.ShareRecord
		for len(recs) < 100 {
			some, err := m.Poll(t.Context())
			require.NoError(t, err)
			recs = append(recs, some...)
		}
		synctest.Wait()
		s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareAcknowledge}, Delay: 10 * time.Millisecond, Times: 1000})
		var count atomic.Int64
		defer s.Observe(func(x *kafka.Exchange) {
			req, ok := x.Request.(*kmsg.ShareAcknowledgeRequest)
			if !ok {
				return
			}
			count.Add(1)
			if len(req.Topics) == 0 { // it ends the session
				return
			}
			for _, p := range req.Topics[0].Partitions {
				next, renewals := int64(0), 0
				for _, b := range p.AcknowledgementBatches {
					assert.GreaterOrEqual(t, b.FirstOffset, next)
					next = b.LastOffset + 1
					if b.AcknowledgeTypes[0] == int8(share.Renew) {
						renewals++
					}
				}
				assert.True(t, renewals == 0 || renewals == len(p.AcknowledgementBatches))
			}
		})()
		var all sync.WaitGroup
		slices.Reverse(recs) // a request needs them by offset
		for i, r := range recs {
			all.Go(func() {
				if i%10 == 0 {
					assert.NoError(t, m.Renew(t.Context(), r))
				}
				assert.NoError(t, m.Accept(t.Context(), r))
			})
		}
		all.Wait()
		require.LessOrEqual(t, count.Load(), int64(25))
		ends, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = m.Poll(ends)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is delivered again")
		require.NoError(t, m.Close())
		require.NoError(t, c.Close())
	})
}

func TestRejectedAcknowledgementDoesNotRejectOthersOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 1}})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		fill(t, c, 10)
		m, err := c.JoinShare(t.Context(), consumer.ShareMember{Group: "jobs", MemberID: topic.NewID().String(), Topics: []string{"t"}, Reset: partition.Earliest})
		require.NoError(t, err)
		got, err := m.Fetch(t.Context(), 100)
		require.NoError(t, err)
		require.EqualValues(t, 9, got.Deliveries[len(got.Deliveries)-1].Last)
		s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareAcknowledge}, Delay: 10 * time.Millisecond})
		var stored []func(context.Context) error
		for _, offset := range []int64{0, 9, 8, 1, 1000, 2, 3, 7, 6, 5, 4} {
			wait, err := m.Acknowledge(t.Context(), got.TopicPartition, []share.Ack{{First: offset, Last: offset, Types: []share.AckType{share.Accept}}})
			require.NoError(t, err)
			stored = append(stored, wait)
		}
		for i, wait := range stored {
			if err := wait(t.Context()); i == 4 {
				require.ErrorIs(t, err, share.ErrInvalidRecordState, "offset 1000 was never acquired")
			} else {
				require.NoError(t, err)
			}
		}
		ends, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = m.Fetch(ends, 100)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is delivered again")
		require.NoError(t, m.Leave(t.Context()))
		require.NoError(t, c.Close())
	})
}
