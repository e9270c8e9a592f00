package kfake

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
)

// ends requests the end offsets of partitions of topics from a node. It returns the error codes in
// their order.
func ends(t *testing.T, cl *kgo.Client, node int, partitions int32, topics ...string) (codes []int16) {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, name := range topics {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for p := range partitions {
			partition := kmsg.NewListOffsetsRequestTopicPartition()
			partition.Partition, partition.Timestamp, partition.CurrentLeaderEpoch = p, -1, -1
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := cl.Broker(node).Request(t.Context(), req)
	require.NoError(t, err)
	got := map[string]map[int32]int16{}
	for _, topic := range resp.(*kmsg.ListOffsetsResponse).Topics {
		got[topic.Topic] = map[int32]int16{}
		for _, p := range topic.Partitions {
			got[topic.Topic][p.Partition] = p.ErrorCode
		}
	}
	for _, name := range topics {
		for p := range partitions {
			codes = append(codes, got[name][p])
		}
	}
	return codes
}

// A fault hits the parts of requests that match all of its fields, as often as it specifies. The
// rest of the request is served.
func TestFaultHitsWhatFitsAllOfItsFields(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		fits := func(f Fault, want ...int16) {
			t.Helper()
			h := c.Fault(f)
			require.Equal(t, want, ends(t, cl, 0, 2, "a", "b"))
			h.Remove()
			require.Equal(t, []int16{0, 0, 0, 0}, ends(t, cl, 0, 2, "a", "b"))
		}
		code := kerr.PolicyViolation.Code
		policy := kerr.PolicyViolation
		fits(Fault{Topic: "a", Err: policy}, code, code, 0, 0)
		fits(Fault{Topic: "b", Partitions: []int32{1}, Err: policy}, 0, 0, 0, code)
		fits(Fault{TopicID: c.TopicInfo("b").TopicID, Err: policy}, 0, 0, code, code)
		fits(Fault{TopicID: [16]byte{1}, Err: policy}, 0, 0, 0, 0)
		fits(Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Nodes: []int32{0}}, -1, -1, -1, -1)
		fits(Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Nodes: []int32{1}}, 0, 0, 0, 0)
		fits(Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "a"}, 0, 0, 0, 0)
		fits(Fault{Group: "g"}, 0, 0, 0, 0)
		fits(Fault{Topic: "a", When: func(kmsg.Request) bool { return false }}, 0, 0, 0, 0)
		fits(Fault{Topic: "a", Observe: true}, 0, 0, 0, 0)
		// ListOffsets has no top-level code
		fits(Fault{TopLevel: true, Keys: []kmsg.Key{kmsg.ListOffsets}}, 0, 0, 0, 0)
	}, NumBrokers(1), SeedTopics(2, "a", "b"))
}

func TestFaultsAreCountedAndWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		h := c.Fault(Fault{Topic: "a", Err: kerr.PolicyViolation, Count: 2}, Fault{Topic: "a", Err: kerr.InvalidRequest}, Fault{Topic: "b", Observe: true, Count: -1})
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, h.Wait(short, 1), context.DeadlineExceeded)
		var codes []int16
		for range 4 {
			codes = append(codes, ends(t, cl, 0, 1, "a")...)
		}
		require.Equal(t, []int16{kerr.PolicyViolation.Code, kerr.PolicyViolation.Code, kerr.InvalidRequest.Code, 0}, codes, "the first that was added counts")
		require.Equal(t, 3, h.Hits())
		reached := make(chan error)
		go func() { reached <- h.Wait(t.Context(), 4) }()
		synctest.Wait()
		ends(t, cl, 0, 1, "b")
		require.NoError(t, <-reached)
	}, NumBrokers(1), SeedTopics(1, "a", "b"))
}

// An error that Kafka returns after the work comes after it here too. Other errors replace the
// work.
func TestFaultsComeBeforeOrAfterTheWork(t *testing.T) {
	for e, written := range map[*kerr.Error]int64{kerr.NotEnoughReplicasAfterAppend: 1, kerr.RequestTimedOut: 1, kerr.NotEnoughReplicas: 0} {
		inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
			cl := client(t, c, network, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
			c.Fault(Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: e})
			require.Error(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "a"}).FirstErr())
			require.Equal(t, written, c.PartitionInfo("a", 0).HighWatermark, "%v", e)
		}, NumBrokers(1), SeedTopics(1, "a"))
	}
}

func TestFaultsOfWholeResponsesAndOfResources(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		c.Fault(Fault{TopLevel: true, Group: "g", Err: kerr.FencedInstanceID})
		code, err := heartbeat(t, cl, 0)
		require.NoError(t, err)
		require.Equal(t, kerr.FencedInstanceID.Code, code)

		c.Fault(Fault{Resource: "b", Err: kerr.InvalidConfig})
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, name := range []string{"a", "b"} {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
			req.Resources = append(req.Resources, r)
		}
		resp, err := cl.Broker(0).Request(t.Context(), req)
		require.NoError(t, err)
		for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
			require.Equal(t, map[string]int16{"a": 0, "b": kerr.InvalidConfig.Code}[r.ResourceName], r.ErrorCode)
		}

		// A control function that answers leaves nothing for faults.
		h := c.Fault(Fault{Keys: []kmsg.Key{kmsg.Heartbeat}})
		c.ControlKey(heartbeatKey, answer(101))
		code, err = heartbeat(t, cl, 0)
		require.NoError(t, err)
		require.Equal(t, int16(101), code)
		require.Zero(t, h.Hits())
	}, NumBrokers(1), SeedTopics(1, "a", "b"))
}
