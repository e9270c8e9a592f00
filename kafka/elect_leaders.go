package kafka

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of elections.
const (
	electPreferred = 0
	electUnclean   = 1
)

// electLeaders makes the preferred replica leader, or any replica of a partition without one. A
// partition has one replica, which leads if its broker serves: no election is ever needed, or can
// help. An answer about all partitions leaves those out that needed none, as Kafka's does.
func (c *call) electLeaders(req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	if c.version >= 1 && req.ElectionType != electPreferred && req.ElectionType != electUnclean {
		resp.ErrorCode = int16(InvalidRequest)
		return resp
	}
	wanted := map[string][]int32{}
	for _, t := range req.Topics {
		wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = name
		slices.Sort(wanted[name])
		for _, p := range slices.Compact(wanted[name]) {
			has, err := c.partitionOf(name, p)
			switch {
			case err != nil:
			case has.Leader == has.Replicas[0] || req.ElectionType == electUnclean && has.Leader >= 0:
				err = refuse(ElectionNotNeeded, "Leader election not needed for topic partition.")
			case req.ElectionType == electUnclean:
				err = refuse(EligibleLeadersNotAvailable, "No replica of the partition is on a broker that serves.")
			default:
				err = refuse(PreferredLeaderNotAvailable, "The preferred leader is not available.")
			}
			ap := kmsg.NewElectLeadersResponseTopicPartition()
			ap.Partition, ap.ErrorCode, ap.ErrorMessage = p, c.errorCode(err), errorMessage(err)
			answer.Partitions = append(answer.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}
