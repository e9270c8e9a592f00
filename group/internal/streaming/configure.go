package streaming

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// configured is a topology checked against the existing topics, with the number of its tasks and
// the topics that are missing. It is never changed. Kafka: ConfiguredTopology.
type configured struct {
	topology *topology
	decided  map[string]int32        // partitions of internal topics, by name
	tasks    map[string]int32        // of each subtopology
	missing  []offsets.StreamsTopic  // by name, with the partitions to create
	problem  *protocol.StreamsStatus // why there are no tasks; nil: it is ready
}

func (c *configured) ready() bool { return c != nil && c.problem == nil }

// partitionsOf returns the partitions of an internal topic if c, which may be nil, is ready.
func (c *configured) partitionsOf(t offsets.StreamsTopic) (n int32, known bool) {
	if !c.ready() {
		return 0, false
	}
	return c.wanted(t), true
}

// wanted returns the number of partitions that the topology needs of an internal topic.
func (c *configured) wanted(t offsets.StreamsTopic) int32 {
	if t.Partitions != 0 {
		return t.Partitions
	}
	return c.decided[t.Name]
}

// unfit reports that the existing topics do not fit the topology.
type unfit struct{ protocol.StreamsStatus }

func (u *unfit) Error() string { return u.Detail }

func misfit(code protocol.StreamsStatusCode, format string, args ...any) error {
	return &unfit{protocol.StreamsStatus{Code: code, Detail: fmt.Sprintf(format, args...)}}
}

func compareNames(a, b string) int { return cmp.Compare(a, b) }

// configure decides the numbers of tasks of a topology and of partitions of its internal topics. It
// returns an error for a topology that is invalid with any topics. Kafka: InternalTopicManager.
func configure(t *topology, topics *modern.Topics) (*configured, error) {
	w := work{topology: t, topics: topics, configured: configured{topology: t, decided: make(map[string]int32), tasks: make(map[string]int32)}}
	for _, step := range []func() error{w.checkSources, w.repartition, w.copartition, w.changelogs, w.count, w.compare} {
		err := step()
		if u := (*unfit)(nil); errors.As(err, &u) {
			return &configured{topology: t, problem: &u.StreamsStatus}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return &w.configured, nil
}

// work is the state of one call of configure.
type work struct {
	*topology
	topics *modern.Topics
	configured
}

// exists returns the number of partitions of an existing topic.
func (w *work) exists(name string) (int32, bool) {
	if w.topics == nil {
		return 0, false
	}
	t, ok := w.topics.ByName[name]
	return t.Partitions, ok
}

// partitions returns the number of partitions of a topic that exists, or is to be created.
func (w *work) partitions(name string) (int32, bool) {
	if n, ok := w.exists(name); ok {
		return n, true
	}
	n, ok := w.decided[name]
	return n, ok
}

// must returns the number of partitions of a topic, or an error if it is unknown.
func (w *work) must(name string) (int32, error) {
	n, ok := w.partitions(name)
	if !ok {
		return 0, classic.Says(protocol.ErrInvalidTopology, "The number of partitions of topic %s follows from nothing.", name)
	}
	return n, nil
}

// subtopologies yields the subtopologies in order of their ids.
func (w *work) subtopologies(yield func(*offsets.StreamsSubtopology) bool) {
	for _, id := range w.ids {
		if !yield(w.byID[id]) {
			return
		}
	}
}

// checkSources returns an error unless all source topics exist.
func (w *work) checkSources() error {
	missing := make(map[string]bool)
	for s := range w.subtopologies {
		for _, name := range s.SourceTopics {
			if _, ok := w.exists(name); !ok {
				missing[name] = true
			}
		}
	}
	if len(missing) > 0 {
		return misfit(protocol.MissingSourceTopics, "Source topics %s are missing.", summary(slices.Sorted(maps.Keys(missing))))
	}
	return nil
}

// changelogs decides the numbers of partitions of changelog topics, which store the states of
// tasks: one for each task.
func (w *work) changelogs() error {
	for s := range w.subtopologies {
		most, err := w.most(s)
		if err != nil {
			return err
		}
		for _, t := range s.Changelogs {
			w.decided[t.Name] = most
		}
	}
	return nil
}

// most returns the highest number of partitions among the topics that a subtopology reads.
func (w *work) most(s *offsets.StreamsSubtopology) (most int32, err error) {
	names := sources(s)
	if len(names) == 0 {
		return 0, classic.Says(protocol.ErrInvalidTopology, "No source topics found for subtopology %s", s.ID)
	}
	for _, name := range names {
		n, err := w.must(name)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// maxTasks bounds the tasks of a group. A member's tasks must fit in a batch, and with a large
// topic a topology of a few bytes can make a million tasks.
const maxTasks = 50_000

// count computes the number of tasks, and checks the internal topics.
func (w *work) count() error {
	total := 0
	for s := range w.subtopologies {
		n, err := w.most(s)
		if err != nil {
			return err
		}
		w.tasks[s.ID] = n
		if total += int(n); total > maxTasks {
			return misfit(protocol.IncorrectlyPartitionedTopics, "The topics make more than the %d tasks that a group can have.", maxTasks)
		}
		for _, all := range [][]offsets.StreamsTopic{s.RepartitionSources, s.Changelogs} {
			seen := make(map[string]bool)
			for _, t := range all {
				switch {
				case w.wanted(t) < 1:
					return classic.Says(protocol.ErrInvalidTopology, "Internal topic %s cannot have %d partitions.", t.Name, w.wanted(t))
				case seen[t.Name]:
					return classic.Says(protocol.ErrInvalidTopology, "Internal topic %s is there twice in subtopology %s.", t.Name, s.ID)
				case repeats(t.Configs):
					return classic.Says(protocol.ErrInvalidTopology, "Internal topic %s has two values of a setting.", t.Name)
				}
				seen[t.Name] = true
			}
		}
	}
	return nil
}

func repeats(configs []offsets.StreamsPair) bool {
	seen := make(map[string]bool, len(configs))
	for _, c := range configs {
		if seen[c.Key] {
			return true
		}
		seen[c.Key] = true
	}
	return false
}

// compare finds missing internal topics. It returns an error if an existing one has a wrong number
// of partitions.
func (w *work) compare() error {
	internal := make(map[string]offsets.StreamsTopic)
	for s := range w.subtopologies {
		for _, t := range append(slices.Clone(s.RepartitionSources), s.Changelogs...) {
			t.Partitions = w.wanted(t)
			internal[t.Name] = t
		}
	}
	for _, name := range slices.Sorted(maps.Keys(internal)) {
		t := internal[name]
		switch n, ok := w.exists(name); {
		case !ok:
			w.missing = append(w.missing, t)
		case n != t.Partitions:
			return misfit(protocol.IncorrectlyPartitionedTopics, "Existing topic %s has different number of partitions: expected %d, found %d", name, t.Partitions, n)
		}
	}
	if len(w.missing) > 0 {
		names := make([]string, 0, len(w.missing))
		for _, t := range w.missing {
			names = append(names, t.Name)
		}
		w.problem = &protocol.StreamsStatus{Code: protocol.MissingInternalTopics, Detail: "Internal topics are missing: " + summary(names)}
	}
	return nil
}

// summary returns the first names, and the number of the others.
func summary(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d additional topics", strings.Join(names[:shown], ", "), len(names)-shown)
}
