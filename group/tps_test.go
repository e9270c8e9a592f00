package group

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

func tps(topic string, partitions ...int32) (out []record.TopicPartition) {
	for _, p := range partitions {
		out = append(out, record.TopicPartition{Topic: topic, Partition: p})
	}
	return out
}

func sortPartitions(tps []record.TopicPartition) {
	slices.SortFunc(tps, func(a, b record.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
