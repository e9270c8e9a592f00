package partitionertest_test

import (
	"testing"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/topic/partitionertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestOwnPartitionersConform(t *testing.T) {
	table := map[string]int{"k": 0, "vip": 1}
	for name, c := range map[string]struct {
		fresh func() topic.Partitioner
		cfg   partitionertest.Config
	}{
		"Default":    {topic.Default, partitionertest.Config{KeyDecides: true, Even: true}},
		"Manual":     {topic.Manual, partitionertest.Config{}},
		"Hash":       {topic.Hash, partitionertest.Config{KeyDecides: true}},
		"XXHash":     {topic.XXHash, partitionertest.Config{KeyDecides: true}},
		"RoundRobin": {topic.RoundRobin, partitionertest.Config{Even: true}},
		"Sticky":     {topic.Sticky, partitionertest.Config{KeyDecides: true}},
		"Range":      {func() topic.Partitioner { return topic.Range([]byte("m")) }, partitionertest.Config{KeyDecides: true, MayRefuse: true}},
		"List":       {func() topic.Partitioner { return topic.List(table, nil) }, partitionertest.Config{KeyDecides: true, MayRefuse: true, Keys: []string{"vip"}}},
		"List with fallback": {func() topic.Partitioner { return topic.List(map[string]int{"k": 0}, topic.Default()) },
			partitionertest.Config{KeyDecides: true, Even: true}},
		"Composite": {func() topic.Partitioner { return topic.Composite(topic.Hash(), 3, topic.Default()) }, partitionertest.Config{KeyDecides: true}},
		"Composite with Sticky": {func() topic.Partitioner { return topic.Composite(topic.Sticky(), 3, topic.Sticky()) },
			partitionertest.Config{KeyDecides: true}},
		"PartitionerFunc": {func() topic.Partitioner {
			return topic.PartitionerFunc(func(r record.Record, n int) int { return len(r.Key) % n })
		}, partitionertest.Config{KeyDecides: true}},
	} {
		t.Run(name, func(t *testing.T) { partitionertest.Run(t, c.fresh, c.cfg) })
	}
}
