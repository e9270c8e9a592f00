package streaming

import (
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// A topology is the topology of an application. It is never changed.
type topology struct {
	*offsets.StreamsTopologyValue
	ids   []string // of the subtopologies, sorted
	byID  map[string]*offsets.StreamsSubtopology
	reads map[string]string // by source topic, repartition topics among them: the subtopology
}

// newTopology returns the topology of v, which it keeps. Of subtopologies with the same id, byID
// has the last.
func newTopology(v *offsets.StreamsTopologyValue) *topology {
	t := &topology{StreamsTopologyValue: v, byID: make(map[string]*offsets.StreamsSubtopology, len(v.Subtopologies)), reads: make(map[string]string)}
	for i := range v.Subtopologies {
		t.byID[v.Subtopologies[i].ID] = &v.Subtopologies[i]
	}
	t.ids = slices.Sorted(maps.Keys(t.byID))
	for _, id := range t.ids {
		for _, name := range sources(t.byID[id]) {
			t.reads[name] = id
		}
	}
	return t
}

// sources returns the topics that a subtopology reads, repartition topics among them.
func sources(s *offsets.StreamsSubtopology) []string {
	out := slices.Clone(s.SourceTopics)
	for _, t := range s.RepartitionSources {
		out = append(out, t.Name)
	}
	return out
}

// required returns the names of all topics that must exist, sorted.
func (t *topology) required() []string {
	all := make(map[string]bool)
	for _, s := range t.byID {
		for _, name := range sources(s) {
			all[name] = true
		}
		for _, topic := range s.Changelogs {
			all[topic.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// equal reports whether both topologies are the same, regardless of the order of subtopologies.
func (t *topology) equal(o *topology) bool {
	return t.Epoch == o.Epoch && len(t.byID) == len(o.byID) && !slices.ContainsFunc(t.ids, func(id string) bool {
		return o.byID[id] == nil || !sameSubtopology(t.byID[id], o.byID[id])
	})
}

func sameSubtopology(a, b *offsets.StreamsSubtopology) bool {
	return slices.Equal(a.SourceTopics, b.SourceTopics) && slices.Equal(a.SourceTopicRegex, b.SourceTopicRegex) &&
		slices.EqualFunc(a.Changelogs, b.Changelogs, sameTopic) && slices.Equal(a.RepartitionSinks, b.RepartitionSinks) &&
		slices.EqualFunc(a.RepartitionSources, b.RepartitionSources, sameTopic) && slices.EqualFunc(a.CopartitionGroups, b.CopartitionGroups, sameCopartition)
}

func sameTopic(a, b offsets.StreamsTopic) bool {
	return a.Name == b.Name && a.Partitions == b.Partitions && a.Replicas == b.Replicas && slices.Equal(a.Configs, b.Configs)
}

func sameCopartition(a, b offsets.StreamsCopartitionGroup) bool {
	return slices.Equal(a.SourceTopics, b.SourceTopics) && slices.Equal(a.SourceTopicRegex, b.SourceTopicRegex) && slices.Equal(a.RepartitionSources, b.RepartitionSources)
}

// described returns the topology for responses: names in order, and internal topics with their
// decided partitions and replicas.
func (t *topology) described(c *configured) *offsets.StreamsTopologyValue {
	out := &offsets.StreamsTopologyValue{Epoch: t.Epoch, Subtopologies: []offsets.StreamsSubtopology{}}
	for _, id := range t.ids {
		s := t.byID[id]
		topics := func(all []offsets.StreamsTopic) []offsets.StreamsTopic {
			all = slices.Clone(all)
			for i := range all {
				if n, known := c.partitionsOf(all[i]); known {
					all[i].Partitions = n
				}
			}
			slices.SortFunc(all, func(a, b offsets.StreamsTopic) int { return compareNames(a.Name, b.Name) })
			return all
		}
		out.Subtopologies = append(out.Subtopologies, offsets.StreamsSubtopology{ID: id,
			SourceTopics: slices.Sorted(slices.Values(s.SourceTopics)), RepartitionSinks: slices.Sorted(slices.Values(s.RepartitionSinks)),
			Changelogs: topics(s.Changelogs), RepartitionSources: topics(s.RepartitionSources)})
	}
	return out
}
