package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/replication"
)

// graduateCompare compares the cluster in dir with the running cluster tg.
func (a *app) graduateCompare(ctx context.Context, dir string, tg *target) (err error) {
	if err := tg.fill(a.say); err != nil {
		return err
	}
	if tg.timeout <= 0 {
		return misuse("--timeout %s: must be above 0", tg.timeout)
	}
	var was, now *clusterSeen
	for i, from := range []*target{{dir: dir, timeout: tg.timeout}, tg} {
		c, err := a.connect(ctx, from)
		if errors.Is(err, replication.ErrLocked) { // without the advice to use -b, which is the other cluster here
			return fmt.Errorf("%s: %w: stop the process that has it open", dir, replication.ErrLocked)
		}
		if err != nil {
			return err
		}
		seen, err := lookAtCluster(ctx, from, c, was)
		if err = errors.Join(err, c.close()); err != nil {
			return err
		}
		if i == 0 {
			was = seen
		}
		now = seen
	}
	diffs, left := differences(was, now), now.unseenLines()
	for _, d := range diffs {
		if err := a.emit(d); err != nil {
			return err
		}
	}
	for _, l := range left {
		if err := a.emit(l); err != nil {
			return err
		}
	}
	l := comparedLine{"compared", dir, strings.Join(tg.bootstrap, ","), len(was.topics), len(was.offsets), len(was.groups), was.lag(), len(diffs), len(left)}
	if err := a.emit(l); err != nil {
		return err
	}
	if len(diffs)+len(left) > 0 {
		return errSilent
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
	differentTopics(was, now, add)
	differentGroups(was, now, add)
	differentAccess(was, now, add)
	return diffs
}

// An addDifference adds a difference if before is not after.
type addDifference func(about, what string, before, after any)

func differentTopics(was, now *clusterSeen, add addDifference) {
	for _, name := range slices.Sorted(maps.Keys(was.topics)) {
		t := was.topics[name]
		other, there := now.topics[name]
		if now.unseen[unseenTopics][name] {
			continue
		}
		if !there {
			add(name, "topic", "present", "missing")
			continue
		}
		add(name, "id", t.id, other.id)
		add(name, "partitions", t.partitions, other.partitions)
		add(name, "replication factor", t.factor, other.factor)
		if now.unseen[unseenSettings][name] {
			continue
		}
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
}

func differentGroups(was, now *clusterSeen, add addDifference) {
	for _, id := range slices.Sorted(maps.Keys(was.groups)) {
		if now.unseen[unseenGroups][id] {
			continue
		}
		all := maps.Clone(was.groups[id])
		maps.Copy(all, now.groups[id])
		for _, p := range sortedPartitions(all) {
			if now.unseen[unseenTopics][p.topic] {
				continue
			}
			about := "group " + id + ", " + p.String()
			add(about, "committed offset", orNone(was.groups[id], p), orNone(now.groups[id], p))
			add(about, "lag", was.lagOf(id, p), now.lagOf(id, p))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now.listed)) {
		if !was.listed[id] {
			add("group "+id, "group", "missing", "present")
		}
	}
}

// differentAccess compares users, access control entries and quotas.
func differentAccess(was, now *clusterSeen, add addDifference) {
	for _, part := range accessParts {
		if now.unseen[part.name] != nil {
			continue
		}
		before, after := was.access[part.name], now.access[part.name]
		if after[noAuthorizer] != "" {
			if len(before) > 0 {
				add(part.name, "number", fmt.Sprint(len(before)), noAuthorizer)
			}
			continue
		}
		all := maps.Clone(before)
		maps.Copy(all, after)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			add(k, part.what, cmp.Or(before[k], "missing"), cmp.Or(after[k], "missing"))
		}
	}
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

// notComparedLine names parts of the running cluster that could not be read.
type notComparedLine struct {
	Type   string   `json:"type"`
	What   string   `json:"what"`            // "topics", "users"
	Names  []string `json:"names,omitempty"` // of topics or groups
	Reason string   `json:"reason"`
}

func (l notComparedLine) writeText(w io.Writer) {
	const most = 5
	names := strings.Join(l.Names[:min(most, len(l.Names))], ", ")
	if more := len(l.Names) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(w, "not compared: %s: %s\n", strings.TrimSpace(l.What+" "+names), l.Reason)
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
	NotCompared int    `json:"notCompared"` // parts
}

func (l comparedLine) writeText(w io.Writer) {
	verdict := "equal"
	if l.Differences > 0 {
		verdict = fmt.Sprintf("%d DIFFERENCES", l.Differences)
	}
	if l.NotCompared > 0 {
		verdict += fmt.Sprintf(", %d PARTS NOT COMPARED", l.NotCompared)
	}
	fmt.Fprintf(w, "%s and %s: %d topics, %d partitions, %d groups with committed offsets and lag %d: %s\n", l.Dir, l.Bootstrap, l.Topics, l.Partitions, l.Groups, l.Lag, verdict)
}
