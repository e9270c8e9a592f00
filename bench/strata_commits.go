package main

import (
	"fmt"
	"sync/atomic"

	coordinator "github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// commitGroups is the number of groups for which strata-commits commits in turn. They are spread
// over the partitions of the offsets topic.
const commitGroups = 64

func init() {
	register(entry{name: "strata-commits", log: func() Subject { return &commitLog{} }, skip: "W1 W3 W5",
		note: "durable commits of offsets for 64 groups; a record is a commit, whatever its size"})
}

// commitLog commits one offset of one of many groups for each record.
type commitLog struct {
	cluster  *replication.Cluster
	groups   *coordinator.Coordinator
	requests [commitGroups]coordinator.CommitRequest
	next     atomic.Uint64
}

func (s *commitLog) Open(dir string, _ Options) (err error) {
	if s.cluster, err = replication.Open(replication.Config{Dir: dir}); err != nil {
		return err
	}
	if err := s.cluster.CreateTopic(bg, benchTopic, topic.Config{Partitions: 1}); err != nil {
		return err
	}
	if s.groups, err = coordinator.NewCoordinator(coordinator.ClusterStore(s.cluster), coordinator.Config{}); err != nil {
		return err
	}
	for i := range s.requests {
		s.requests[i] = coordinator.CommitRequest{
			Group: fmt.Sprintf("bench-%d", i), Generation: -1,
			Offsets: map[record.TopicPartition]record.Committed{{Topic: benchTopic}: {Offset: 1}},
		}
	}
	for range s.requests { // creates the partitions of the offsets topic before the measurement
		if err := s.AppendOne(nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *commitLog) AppendBatch(recs [][]byte) error {
	for range recs {
		if err := s.AppendOne(nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *commitLog) AppendOne([]byte) error {
	errs, err := s.groups.CommitOffsets(bg, s.requests[s.next.Add(1)%commitGroups])
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}

func (s *commitLog) ReadAll(func([]byte)) error { return nil }

func (s *commitLog) Close() error {
	if err := s.groups.Close(); err != nil {
		return err
	}
	return s.cluster.Close()
}
