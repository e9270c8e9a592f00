package streaming

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// repartition decides the numbers of partitions of repartition topics, through which an application
// sends records to itself. It is the topology's number, or the largest one among the topics that
// the writing subtopology reads. Kafka: RepartitionTopics.
func (w *work) repartition() error {
	for s := range w.subtopologies {
		for _, t := range s.RepartitionSources {
			if t.Partitions != 0 {
				w.decided[t.Name] = t.Partitions
			}
		}
	}
	if !w.decideSinks() {
		return classic.Says(protocol.ErrInvalidTopology, "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved.")
	}
	for s := range w.subtopologies {
		for _, t := range s.RepartitionSources {
			if _, ok := w.decided[t.Name]; !ok {
				return classic.Says(protocol.ErrInvalidTopology, "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic.")
			}
		}
	}
	return nil
}

// decideSinks decides the open repartition topics that a subtopology writes, once one of its
// sources is decided. It repeats this as Kafka does, but only for subtopologies with new decisions.
// It returns false if some topic remains open.
func (w *work) decideSinks() bool {
	reads := make(map[string][]int) // repartition topic -> subtopologies
	for i, id := range w.ids {
		for _, t := range w.byID[id].RepartitionSources {
			reads[t.Name] = append(reads[t.Name], i)
		}
	}
	met, now, later := make([]bool, len(w.ids)), make(inLine, 0, len(w.ids)), inLine(nil)
	for i, id := range w.ids {
		if met[i] = w.largest(w.byID[id]) > 0; met[i] {
			now = append(now, i)
		}
	}
	for len(now) > 0 {
		i := heap.Pop(&now).(int)
		s := w.byID[w.ids[i]]
		n := w.largest(s)
		for _, sink := range s.RepartitionSinks {
			if _, ok := w.decided[sink]; ok {
				continue
			}
			w.decided[sink] = n
			for _, next := range reads[sink] {
				switch {
				case met[next]:
					continue
				case next > i:
					heap.Push(&now, next)
				default:
					later = append(later, next)
				}
				met[next] = true
			}
		}
		if len(now) == 0 {
			heap.Init(&later)
			now, later = later, nil
		}
	}
	for s := range w.subtopologies {
		for _, sink := range s.RepartitionSinks {
			if _, ok := w.decided[sink]; !ok {
				return false
			}
		}
	}
	return true
}

// largest returns the highest known number of partitions among the sources of a subtopology.
func (w *work) largest(s *offsets.StreamsSubtopology) (n int32) {
	for _, t := range s.RepartitionSources {
		n = max(n, w.decided[t.Name])
	}
	for _, name := range s.SourceTopics {
		existing, _ := w.exists(name)
		n = max(n, existing)
	}
	return n
}

// inLine is a heap of indexes of subtopologies, the lowest first.
type inLine []int

func (q inLine) Len() int           { return len(q) }
func (q inLine) Less(i, j int) bool { return q[i] < q[j] }
func (q inLine) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *inLine) Push(x any)        { *q = append(*q, x.(int)) }

func (q *inLine) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// copartition gives repartition topics as many partitions as the topics that they are joined with.
// It returns an error if those have different numbers. Kafka: CopartitionedTopicsEnforcer.
func (w *work) copartition() error {
	fixed, flexible := make(map[string]int32), make(map[string]bool)
	for s := range w.subtopologies {
		for _, t := range s.RepartitionSources {
			if t.Partitions != 0 {
				fixed[t.Name], _ = w.partitions(t.Name)
			} else {
				flexible[t.Name] = true
			}
		}
	}
	common, alike := same(fixed) // also of topics that are not joined, as in Kafka
	for s := range w.subtopologies {
		for _, g := range s.CopartitionGroups {
			names, err := copartitioned(s, g)
			if err == nil && len(names) > 0 {
				err = w.align(names, fixed, flexible, common, alike)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// copartitioned returns the topics of a copartition group, sorted.
func copartitioned(s *offsets.StreamsSubtopology, g offsets.StreamsCopartitionGroup) ([]string, error) {
	names := make(map[string]bool)
	for _, i := range g.SourceTopics {
		if int(i) >= len(s.SourceTopics) || i < 0 {
			return nil, classic.Says(protocol.ErrInvalidTopology, "Subtopology %s has no source topic %d.", s.ID, i)
		}
		names[s.SourceTopics[i]] = true
	}
	for _, i := range g.RepartitionSources {
		if int(i) >= len(s.RepartitionSources) || i < 0 {
			return nil, classic.Says(protocol.ErrInvalidTopology, "Subtopology %s has no repartition topic %d.", s.ID, i)
		}
		names[s.RepartitionSources[i].Name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// align decides the repartition topics among names, whose records are joined. fixed are the
// repartition topics whose numbers the topology contains. common is their number of partitions;
// alike is false if they have different ones.
func (w *work) align(names []string, fixed map[string]int32, flexible map[string]bool, common int32, alike bool) error {
	internal, external := make(map[string]int32), make(map[string]int32)
	for _, name := range names {
		n, err := w.must(name)
		if err != nil {
			return err
		}
		if _, ok := fixed[name]; ok || flexible[name] {
			internal[name] = n
		} else {
			external[name] = n
		}
	}
	want, told := common, internal
	switch {
	case len(external) > 0:
		told = external
		want, alike = same(external)
	case len(fixed) == 0:
		want = slices.Max(slices.Collect(maps.Values(internal)))
	}
	if !alike {
		return unlike(told)
	}
	for _, name := range names {
		n, ok := internal[name]
		if !ok {
			continue
		}
		w.decided[name] = want
		if _, ok := fixed[name]; ok && n != want {
			return misfit(protocol.IncorrectlyPartitionedTopics, "Number of partitions [%d] of repartition topic [%s] doesn't match number of partitions [%d] of the source topic.", n, name, want)
		}
	}
	return nil
}

// same returns the number of partitions of topics, and whether all have the same number.
func same(of map[string]int32) (n int32, alike bool) {
	n = -1
	for _, m := range of {
		if n >= 0 && m != n {
			return n, false
		}
		n = m
	}
	return n, true
}

// unlike returns the error for joined topics with different numbers of partitions.
func unlike(told map[string]int32) error {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(told)) {
		list = append(list, fmt.Sprintf("%s=%d", name, told[name]))
	}
	return misfit(protocol.IncorrectlyPartitionedTopics, "Following topics do not have the same number of partitions: [{%s}]", strings.Join(list, ", "))
}
