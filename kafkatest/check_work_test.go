package kafkatest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/share"
)

type work = func(partition int32, offset int64) (share.AckType, error)

type worker = func(ctx context.Context, s *Server, work work) error

// worked calls do for each record of a member of a share group, a client of franz-go.
func worked(ctx context.Context, s *Server, do func(*kgo.Record) error) error {
	if err := fromEarliest(ctx, s); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ShareGroup("g"), kgo.ConsumeTopics("checked"), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		for _, r := range cl.PollRecords(ctx, 10).Records() {
			if err := do(r); err != nil {
				r.Ack(kgo.AckRelease)
				return err
			}
		}
		if err := cl.FlushAcks(ctx); err != nil {
			continue // a record that is not acknowledged is delivered again
		}
	}
	return nil
}

// fromEarliest has the share group begin at the first record. It must be set before a member joins.
func fromEarliest(ctx context.Context, s *Server) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
	if err != nil {
		return err
	}
	defer cl.Close()
	earliest, req := "earliest", kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &earliest}},
	}}
	_, err = req.RequestWith(ctx, cl)
	return err
}

func rightWorker(ctx context.Context, s *Server, work work) error {
	return worked(ctx, s, func(r *kgo.Record) error {
		result, err := work(r.Partition, r.Offset)
		if err == nil {
			r.Ack(kgo.AckStatus(result))
		}
		return err
	})
}

// hastyWorker acknowledges a record before it works.
func hastyWorker(ctx context.Context, s *Server, work work) error {
	return worked(ctx, s, func(r *kgo.Record) error {
		r.Ack(kgo.AckAccept)
		_, err := work(r.Partition, r.Offset)
		return err
	})
}

// losingWorker accepts every tenth record without work.
func losingWorker(ctx context.Context, s *Server, work work) error {
	return worked(ctx, s, func(r *kgo.Record) error {
		result, err := share.Accept, error(nil)
		if r.Offset%10 != 9 {
			result, err = work(r.Partition, r.Offset)
		}
		if err == nil {
			r.Ack(kgo.AckStatus(result))
		}
		return err
	})
}

// acceptingWorker accepts each record, whatever the result of the work is.
func acceptingWorker(ctx context.Context, s *Server, work work) error {
	return worked(ctx, s, func(r *kgo.Record) error {
		_, err := work(r.Partition, r.Offset)
		if err == nil {
			r.Ack(kgo.AckAccept)
		}
		return err
	})
}

// releasingWorker releases rejected records.
func releasingWorker(ctx context.Context, s *Server, work work) error {
	return worked(ctx, s, func(r *kgo.Record) error {
		result, err := work(r.Partition, r.Offset)
		if result == share.Reject {
			result = share.Release
		}
		if err == nil {
			r.Ack(kgo.AckStatus(result))
		}
		return err
	})
}

// After these faults franz-go v1.22.2 may not fetch from the broker again.
var unfetched = []string{"not-leader", "leader-silent"}

func TestCheckPassesARightWorker(t *testing.T) {
	for _, f := range workFaults {
		if !slices.Contains(unfetched, f.name) {
			t.Run(f.name, func(t *testing.T) { require.Empty(t, found(t, Code{Work: rightWorker}, f.name)) })
		}
	}
}

func TestCheckFindsWhatWorkersGetWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		work  worker
		fault string
		finds []string
	}{
		{"hasty", hastyWorker, "undisturbed", []string{"acknowledged too early", "lost"}},
		{"hasty", hastyWorker, "ended", []string{"acknowledged too early", "lost"}},
		{"losing", losingWorker, "undisturbed", []string{"acknowledged too early", "lost"}},
		{"accepting", acceptingWorker, "undisturbed", []string{"acknowledged too early", "lost"}},
		{"releasing", releasingWorker, "undisturbed", []string{"doubled"}},
	} {
		t.Run(c.name+"/"+c.fault, func(t *testing.T) {
			requireFindings(t, c.finds, found(t, Code{Work: c.work, Config: Config{WaitTimeout: 2 * time.Minute}}, c.fault))
		})
	}
}
