package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// graduateCompare compares the cluster in dir with the running cluster tg.
func (a *app) graduateCompare(ctx context.Context, dir string, tg *target) (err error) {
	if err := tg.fill(a.say); err != nil {
		return err
	}
	if tg.timeout <= 0 {
		return misuse("--timeout %s: must be above 0", tg.timeout)
	}
	var seen [2]*clusterSeen
	for i, from := range []*target{{dir: dir, timeout: tg.timeout}, tg} {
		c, err := a.connect(ctx, from)
		if err != nil {
			return err
		}
		seen[i], err = lookAtCluster(ctx, from, c.admin)
		if err = errors.Join(err, c.close()); err != nil {
			return err
		}
	}
	diffs := differences(seen[0], seen[1])
	for _, d := range diffs {
		if err := a.emit(d); err != nil {
			return err
		}
	}
	l := comparedLine{"compared", dir, strings.Join(tg.bootstrap, ","), len(seen[0].topics), len(seen[0].offsets), len(seen[0].groups), seen[0].lag(), len(diffs)}
	if err := a.emit(l); err != nil {
		return err
	}
	if len(diffs) > 0 {
		return errSilent
	}
	return nil
}

// A clusterSeen has the parts of a cluster that a move keeps.
type clusterSeen struct {
	id      string
	topics  map[string]topicSeen
	offsets map[comparedPartition][2]int64 // start and end
	groups  map[string]map[comparedPartition]int64
}

type topicSeen struct {
	id         string
	partitions int
	internal   bool
	configs    map[string]string // not defaults
}

type comparedPartition struct {
	topic     string
	partition int32
}

func (p comparedPartition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// lag returns the lag of all groups together.
func (s *clusterSeen) lag() (lag int64) {
	for _, g := range s.groups {
		for p, at := range g {
			lag += max(s.offsets[p][1]-at, 0)
		}
	}
	return lag
}

func lookAtCluster(ctx context.Context, tg *target, admin *kadm.Client) (*clusterSeen, error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	m, err := admin.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	s := &clusterSeen{m.Cluster, map[string]topicSeen{}, map[comparedPartition][2]int64{}, map[string]map[comparedPartition]int64{}}
	names := m.Topics.Names()
	if len(names) > 0 {
		if err := s.lookAtTopics(ctx, admin, m.Topics, names); err != nil {
			return nil, err
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, g := range groups.Sorted() {
		if g.ProtocolType != "share" {
			ids = append(ids, g.Group)
		}
	}
	if len(ids) == 0 {
		return s, nil
	}
	for id, r := range admin.FetchManyOffsets(ctx, ids...) {
		if r.Err != nil {
			return nil, fmt.Errorf("%s: %w", id, r.Err)
		}
		committed := map[comparedPartition]int64{}
		for _, o := range r.Fetched.Sorted() {
			if o.Err != nil {
				return nil, fmt.Errorf("%s, %s-%d: %w", id, o.Topic, o.Partition, o.Err)
			}
			if o.At >= 0 {
				committed[comparedPartition{o.Topic, o.Partition}] = o.At
			}
		}
		if len(committed) > 0 {
			s.groups[id] = committed
		}
	}
	return s, nil
}

func (s *clusterSeen) lookAtTopics(ctx context.Context, admin *kadm.Client, topics kadm.TopicDetails, names []string) error {
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return err
	}
	starts, err1 := admin.ListStartOffsets(ctx, names...)
	ends, err2 := admin.ListEndOffsets(ctx, names...)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, t := range topics {
		if t.Err != nil {
			return fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
		rc, err := configs.On(t.Topic, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Topic, err)
		}
		seen := topicSeen{uuid(t.ID), len(t.Partitions), t.IsInternal, map[string]string{}}
		for _, k := range rc.Configs {
			if k.Source == kmsg.ConfigSourceDynamicTopicConfig && k.Value != nil {
				seen.configs[k.Key] = *k.Value
			}
		}
		s.topics[t.Topic] = seen
		for p := range t.Partitions {
			start, _ := starts.Lookup(t.Topic, p)
			end, _ := ends.Lookup(t.Topic, p)
			if err := errors.Join(start.Err, end.Err); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p, err)
			}
			s.offsets[comparedPartition{t.Topic, p}] = [2]int64{start.Offset, end.Offset}
		}
	}
	return nil
}

// differences returns the parts of was that now lacks or has with another value, sorted. It does no
// I/O.
func differences(was, now *clusterSeen) (diffs []differenceLine) {
	add := func(about, what string, before, after any) {
		if before != after {
			diffs = append(diffs, differenceLine{"difference", about, what, fmt.Sprint(before), fmt.Sprint(after)})
		}
	}
	add("cluster", "id", was.id, now.id)
	for _, name := range slices.Sorted(maps.Keys(was.topics)) {
		t := was.topics[name]
		other, there := now.topics[name]
		if !there {
			add(name, "topic", "present", "missing")
			continue
		}
		add(name, "id", t.id, other.id)
		add(name, "partitions", t.partitions, other.partitions)
		keys := maps.Clone(t.configs)
		if !t.internal { // Kafka gives its internal topics settings of their own
			maps.Copy(keys, other.configs)
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			add(name, k, orDefault(t.configs, k), orDefault(other.configs, k))
		}
	}
	for _, p := range sortedPartitions(was.offsets) {
		after, there := now.offsets[p]
		if before := was.offsets[p]; there && !was.topics[p.topic].internal {
			add(p.String(), "start", before[0], after[0])
			add(p.String(), "end", before[1], after[1])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was.groups)) {
		all := maps.Clone(was.groups[id])
		maps.Copy(all, now.groups[id])
		for _, p := range sortedPartitions(all) {
			about := "group " + id + ", " + p.String()
			add(about, "committed offset", orNone(was.groups[id], p), orNone(now.groups[id], p))
			add(about, "lag", was.lagOf(id, p), now.lagOf(id, p))
		}
	}
	return diffs
}

// lagOf returns a group's lag in a partition as text.
func (s *clusterSeen) lagOf(id string, p comparedPartition) string {
	at, committed := s.groups[id][p]
	ends, there := s.offsets[p]
	if !committed || !there {
		return "none"
	}
	return fmt.Sprint(max(ends[1]-at, 0))
}

func sortedPartitions[V any](m map[comparedPartition]V) []comparedPartition {
	return slices.SortedFunc(maps.Keys(m), func(a, b comparedPartition) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.partition - b.partition)
	})
}

func orDefault(configs map[string]string, k string) string {
	if v, set := configs[k]; set {
		return v
	}
	return "the default"
}

func orNone(committed map[comparedPartition]int64, p comparedPartition) string {
	if at, is := committed[p]; is {
		return fmt.Sprint(at)
	}
	return "none"
}

// differenceLine is one difference between the directory and the running cluster.
type differenceLine struct {
	Type   string `json:"type"`
	About  string `json:"about"` // "orders-0", "group billing, orders-0"
	What   string `json:"what"`
	Before string `json:"before"` // in the directory
	After  string `json:"after"`  // in the running cluster
}

func (l differenceLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s was %s, now %s\n", l.About, l.What, l.Before, l.After)
}

type comparedLine struct {
	Type        string `json:"type"`
	Dir         string `json:"dir"`
	Bootstrap   string `json:"bootstrap"`
	Topics      int    `json:"topics"`
	Partitions  int    `json:"partitions"`
	Groups      int    `json:"groups"`
	Lag         int64  `json:"lag"` // of all groups together
	Differences int    `json:"differences"`
}

func (l comparedLine) writeText(w io.Writer) {
	verdict := "equal"
	if l.Differences > 0 {
		verdict = fmt.Sprintf("%d DIFFERENCES", l.Differences)
	}
	fmt.Fprintf(w, "%s and %s: %d topics, %d partitions, %d groups with committed offsets and lag %d: %s\n", l.Dir, l.Bootstrap, l.Topics, l.Partitions, l.Groups, l.Lag, verdict)
}
