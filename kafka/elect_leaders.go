package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// electLeaders elects the preferred replica of a partition, or any replica of a partition without
// a leader. Key 43, versions 0 to 2; version 0 elects only the preferred replica. A response about
// all partitions names every topic. It omits partitions that needed no election, as in Kafka.
func (c *call) electLeaders(req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind := replication.ElectionType(req.ElectionType)
	if c.version == 0 {
		kind = replication.PreferredElection
	}
	if kind != replication.PreferredElection && kind != replication.UncleanElection {
		return notElectable(req, resp)
	}
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	wanted, err := c.electable(ctx, req.Topics)
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	var tps []record.TopicPartition
	names := slices.Sorted(maps.Keys(wanted))
	for _, name := range names {
		for _, p := range wanted[name] {
			tps = append(tps, record.TopicPartition{Topic: name, Partition: p})
		}
	}
	errs := c.s.cluster.ElectLeaders(ctx, kind, tps...)
	for _, name := range names {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = name
		for _, p := range wanted[name] {
			err := errs[0]
			errs = errs[1:]
			if req.Topics == nil && errors.Is(err, replication.ErrElectionNotNeeded) {
				continue
			}
			if err = notElected(err); errors.Is(err, replication.ErrUnknownTopic) {
				err = c.noSuchPartition(name, p)
			}
			ap := kmsg.NewElectLeadersResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p, c.errorCode(err), errorMessage(err)
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// notElectable returns the response to an unknown election type: every partition has the error.
func notElectable(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse) kmsg.Response {
	if req.Topics == nil || len(req.Topics) > 0 {
		resp.ErrorCode = int16(InvalidRequest)
	}
	for _, t := range req.Topics {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = t.Topic
		for _, p := range t.Partitions {
			ap := kmsg.NewElectLeadersResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p, int16(InvalidRequest), kmsg.StringPtr(fmt.Sprintf("Unknown election type %d", req.ElectionType))
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

func (c *call) noSuchPartition(name string, p int32) error {
	if !c.hasTopic(name) {
		return refuse(UnknownTopicOrPartition, "No such topic as "+name)
	}
	return refuse(UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", name, p))
}

// electable returns the requested partitions by topic, each once; nil topics mean all.
func (c *call) electable(ctx context.Context, topics []kmsg.ElectLeadersRequestTopic) (map[string][]int32, error) {
	wanted := map[string][]int32{}
	if topics == nil {
		all, err := c.s.cluster.Metadata(ctx)
		for name, t := range all.Topics {
			wanted[name] = nil
			for p := range t.Partitions {
				wanted[name] = append(wanted[name], int32(p))
			}
		}
		return wanted, err
	}
	for _, t := range topics { // a request may name a topic many times
		wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
	}
	for name, partitions := range wanted {
		slices.Sort(partitions)
		wanted[name] = slices.Compact(partitions)
	}
	return wanted, nil
}

// notElected returns the reason why there was no election, with Kafka's message.
func notElected(err error) error {
	for _, why := range []struct {
		err  error
		code Code
		text string
	}{
		{replication.ErrElectionNotNeeded, ElectionNotNeeded, "Leader election not needed for topic partition."},
		{replication.ErrPreferredLeaderNotAvailable, PreferredLeaderNotAvailable, "The preferred leader was not available."},
		{replication.ErrEligibleLeadersNotAvailable, EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available."},
	} {
		if errors.Is(err, why.err) {
			return refuse(why.code, why.text)
		}
	}
	return err
}
