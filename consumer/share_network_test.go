package consumer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

// A shareNetwork is a backend of share groups behind a slow connection. It has one member, and one
// partition with the records that it was created with. The results of acknowledgements arrive a
// round trip later, and records in lost are no longer held by the member.
type shareNetwork struct {
	records []string
	lost    []int64
	silent  bool // no request gets a response

	member consumer.ShareMember

	mu    sync.Mutex // guards the fields below
	next  int64
	acked map[string][]share.AckType // by value
	left  bool
}

const roundTrip = 10 * time.Millisecond

func (n *shareNetwork) JoinShare(ctx context.Context, m consumer.ShareMember) (consumer.ShareMembership, error) {
	if n.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n.member, n.acked = m, map[string][]share.AckType{}
	return n, nil
}

func (n *shareNetwork) Fetch(ctx context.Context, max int) (share.Fetched, error) {
	n.mu.Lock()
	first, last := n.next, min(n.next+int64(max), int64(len(n.records)))-1
	n.next = last + 1
	n.mu.Unlock()
	if first > last {
		<-ctx.Done()
		return share.Fetched{}, ctx.Err()
	}
	time.Sleep(roundTrip)
	var b record.Builder
	b.Reset(0)
	for _, v := range n.records { // whole batches, as in Kafka
		b.AppendKV(1, nil, []byte(v), nil)
	}
	bytes, err := b.Build(record.None)
	return share.Fetched{
		TopicPartition: share.TopicPartition{TopicPartition: record.TopicPartition{Topic: "jobs"}},
		Bytes:          bytes, Deliveries: []share.Delivery{{First: first, Last: last, Count: 1}},
	}, err
}

func (n *shareNetwork) Begin(context.Context, share.TopicPartition, int64, int64) error { return nil }

func (n *shareNetwork) Acknowledge(_ context.Context, _ share.TopicPartition, acks []share.Ack) (stored func(context.Context) error, err error) {
	arrives := time.Now().Add(roundTrip)
	result := n.apply(acks)
	return func(context.Context) error {
		time.Sleep(time.Until(arrives))
		return result
	}, nil
}

func (n *shareNetwork) apply(acks []share.Ack) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(acks, func(a share.Ack) bool {
		return slices.ContainsFunc(n.lost, func(o int64) bool { return a.First <= o && o <= a.Last })
	}) {
		return share.ErrInvalidRecordState
	}
	for _, a := range acks {
		for o := a.First; o <= a.Last; o++ {
			n.acked[n.records[o]] = append(n.acked[n.records[o]], a.Types[0])
		}
	}
	return nil
}

func (n *shareNetwork) Leave(context.Context) error {
	n.left = true
	return nil
}

// Checklist row CL2.
func TestShareGroupWorksOverANetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &shareNetwork{records: []string{"a", "b", "c", "d", "e", "f", "g"}}
		s, err := consumer.NewShare(n, consumer.ShareConfig{Group: "g", Topics: []string{"mails", "jobs", "jobs"}, MaxRecords: 4, Reset: consumer.Latest(), Isolation: consumer.ReadUncommitted})
		require.NoError(t, err)
		_, err = topic.ParseID(n.member.MemberID)
		require.NoError(t, err, "Kafka takes only UUIDs")
		require.Equal(t, consumer.ShareMember{Group: "g", MemberID: s.MemberID(), Topics: []string{"jobs", "mails"}, Reset: partition.Latest, Isolation: partition.ReadUncommitted}, n.member)

		recs, err := s.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c", "d"}, shareValues(recs))
		require.NoError(t, s.Renew(t.Context(), recs[0]))
		require.NoError(t, s.Release(t.Context(), recs[1]))
		require.NoError(t, s.Reject(t.Context(), recs[2]))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for r, err := range s.Records(ctx) { // accepts the rest
			require.NoError(t, err)
			if string(r.Value) == "g" {
				time.AfterFunc(time.Second, cancel) // the loop waits for records
			}
		}
		require.Equal(t, map[string][]share.AckType{"a": {share.Renew, share.Accept}, "b": {share.Release}, "c": {share.Reject}, "d": {share.Accept},
			"e": {share.Accept}, "f": {share.Accept}, "g": {share.Accept}}, n.acked)
		require.NoError(t, s.Close())
		require.True(t, n.left)
	})
}

// Checklist row CL2.
func TestRejectedAcknowledgementReachesTheWorkerAlsoIfItArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &shareNetwork{records: []string{"a", "b", "c", "d"}, lost: []int64{0, 3}}
		s, err := consumer.NewShare(n, consumer.ShareConfig{Group: "g", Topics: []string{"jobs"}, MaxRecords: 2})
		require.NoError(t, err)
		defer s.Close()
		recs, err := s.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, shareValues(recs))
		_, err = s.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrNotAcquired)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []string
		for r, err := range s.Records(ctx) {
			if err != nil {
				require.ErrorIs(t, err, consumer.ErrNotAcquired)
				seen = append(seen, "not acquired")
				cancel()
				continue
			}
			seen = append(seen, string(r.Value))
		}
		require.Equal(t, []string{"c", "d", "not acquired"}, seen)
		require.Equal(t, map[string][]share.AckType{"b": {share.Accept}, "c": {share.Accept}}, n.acked)
	})
}

// Checklist row CL2.
func TestNewShareReturnsThoughTheBackendIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := consumer.NewShare(&shareNetwork{silent: true}, consumer.ShareConfig{Group: "g", Topics: []string{"jobs"}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}
