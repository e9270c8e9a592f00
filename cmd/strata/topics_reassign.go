package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// reassignPause is the time between two requests for the progress of a reassignment. Kafka's
// protocol has no request that waits for the end.
const reassignPause = 200 * time.Millisecond

// maxReplicas is the largest replication factor that a reassignment accepts. Kafka's is an int16.
const maxReplicas = 1<<15 - 1

func (a *app) topicsReassign() *cobra.Command {
	var tg target
	var replicas int
	var internal, dry, cancel bool
	c := &cobra.Command{Use: "reassign [TOPIC...] --replicas N|--cancel", Short: "Change the number of replicas of topics",
		Long: "reassign gives each partition the number of replicas of --replicas, and waits until new replicas have all records and are in sync.\n" +
			"Without a name it takes all topics except internal ones. Present replicas stay where they are, unless their broker has stopped. New replicas\n" +
			"go to racks that the partition lacks, then to the brokers with the fewest replicas. The present leader stays the preferred leader, unless its\n" +
			"broker would lead more than its share. At the end, preferred leaders are elected.\n\n" +
			"If the command is interrupted, the cluster completes the reassignment, or ends it with --cancel: partitions return to the replicas that they had\n" +
			"before, and lose new ones. It works with any broker of Kafka 2.4 or later, and needs the rights to describe the topics and to alter the cluster.",
		Example: "  strata topics reassign --replicas 3 --dry-run -b localhost:9092\n" +
			"  strata topics reassign --replicas 3 --internal -b localhost:9092\n" +
			"  strata topics reassign orders payments --replicas 2 -b localhost:9092\n" +
			"  strata topics reassign --cancel --internal -b localhost:9092"}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, names []string) error {
		switch given := tg.set.Changed("replicas"); {
		case given == cancel:
			return misuse("topics reassign needs one of --replicas and --cancel")
		case !given:
		case replicas < 1 || replicas > maxReplicas:
			return misuse("--replicas %d: a partition has 1 to %d replicas", replicas, maxReplicas)
		}
		if internal && len(names) > 0 {
			return misuse("--internal adds all internal topics; with names of topics, name them")
		}
		if cancel {
			return a.cancelReassign(ctx, &tg, c.asker, names, internal, dry)
		}
		moves, ids, err := planReassign(ctx, &tg, c, names, internal, replicas)
		if err != nil {
			return err
		}
		for _, m := range moves {
			if err := a.emit(m); err != nil {
				return err
			}
		}
		if dry || len(moves) == 0 {
			return a.emit(reassignedLine{Type: "reassigned", Partitions: len(moves), DryRun: dry})
		}
		r := &reassigning{tg: &tg, ask: c.asker, ids: ids, deleted: map[string]bool{}}
		if err := a.reassign(ctx, r, moves); err != nil {
			return err
		}
		moves = r.present(moves)
		if err := a.emit(reassignedLine{Type: "reassigned", Partitions: len(moves)}); err != nil {
			return err
		}
		return r.deletedError()
	})
	tg.flags(c)
	c.Flags().IntVar(&replicas, "replicas", 0, "number of replicas of each partition")
	c.Flags().BoolVar(&internal, "internal", false, "include internal topics")
	c.Flags().BoolVar(&cancel, "cancel", false, "cancel the reassignments of the topics that are in progress")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the plan and change nothing")
	return c
}

// planReassign returns the changes that give the partitions of topics n replicas each, and the ids
// of the topics. It refuses partitions without a leader and partitions that are being reassigned
// already.
func planReassign(ctx context.Context, tg *target, c *conn, names []string, internal bool, n int) ([]moveLine, map[string]kadm.TopicID, error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	m, err := c.admin.Metadata(ctx, names...)
	if err != nil {
		return nil, nil, needing("describe the topics", names, err)
	}
	if len(m.Topics) == 0 {
		if err := emptyCluster(ctx, tg, c); err != nil {
			return nil, nil, err
		}
	}
	brokers := map[int32]string{}
	for _, b := range m.Brokers {
		brokers[b.NodeID] = ""
		if b.Rack != nil {
			brokers[b.NodeID] = *b.Rack
		}
	}
	if n > len(brokers) {
		return nil, nil, fmt.Errorf("--replicas %d: the cluster has %d live brokers: %w", n, len(brokers), kerr.InvalidReplicationFactor)
	}
	var parts []replicaSet
	set, ids := kadm.TopicsSet{}, map[string]kadm.TopicID{}
	for _, t := range m.Topics.Sorted() {
		if t.Err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t.Topic, t.Err)
		}
		if len(names) == 0 && t.IsInternal && !internal {
			continue
		}
		ids[t.Topic] = t.ID
		for _, p := range t.Partitions.Sorted() {
			if p.Leader < 0 {
				return nil, nil, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, kerr.LeaderNotAvailable)
			}
			set.Add(t.Topic, p.Partition)
			parts = append(parts, replicaSet{t.Topic, p.Partition, p.Leader, p.Replicas, p.ISR})
		}
	}
	if len(parts) == 0 {
		return nil, nil, nil
	}
	underWay, err := c.admin.ListPartitionReassignments(ctx, set)
	if err != nil {
		return nil, nil, needing("describe the cluster", nil, err)
	}
	if all := underWay.Sorted(); len(all) > 0 {
		p := all[0]
		err := fmt.Errorf("%s-%d: replicas %s are being added: %w", p.Topic, p.Partition, brokerList(p.AddingReplicas), kerr.ReassignmentInProgress)
		for _, id := range p.AddingReplicas {
			if _, live := brokers[id]; !live {
				err = fmt.Errorf("%w: broker %d does not run", err, id)
			}
		}
		return nil, nil, err
	}
	return spreadReplicas(parts, brokers, n), ids, nil
}

// reassignBatch is the number of partitions that are reassigned at a time. It bounds the load of
// copies on the brokers, and the size of a request: Kafka's controller rejects more than 10,000
// records of one request.
const reassignBatch = 500

// reassign makes the changes, a batch at a time.
func (a *app) reassign(ctx context.Context, r *reassigning, moves []moveLine) error {
	if err := a.w.Flush(); err != nil { // the plan is read while the brokers copy
		return err
	}
	tell, hide := a.progress()
	defer hide()
	complete := 0
	for batch := range slices.Chunk(moves, reassignBatch) {
		err := r.together(ctx, batch, func(left int) {
			tell(func() string {
				return fmt.Sprintf("reassign: %d of %d partitions are complete", complete+len(batch)-left, len(moves))
			})
		})
		if err != nil {
			return err
		}
		complete += len(batch)
	}
	return nil
}

// A replicaSet is a partition with its present replicas.
type replicaSet struct {
	topic     string
	partition int32
	leader    int32
	replicas  []int32
	isr       []int32
}

// spreadReplicas returns the changes that give each partition n replicas. racks has the rack of
// each live broker, "" if it has none; n is at most their number. It does no I/O.
func spreadReplicas(parts []replicaSet, racks map[int32]string, n int) []moveLine {
	s := &spread{racks: racks, replicas: map[int32]int{}, leads: map[int32]int{}, topicLeads: map[string]map[int32]int{}}
	for id := range racks {
		s.brokers = append(s.brokers, id)
	}
	slices.Sort(s.brokers)
	perTopic := map[string]int{}
	after := make([][]int32, len(parts))
	for i, p := range parts {
		perTopic[p.topic]++
		after[i] = s.keep(p, n)
	}
	// Only when all kept replicas are counted is it known which brokers have the fewest.
	for i := range parts {
		for len(after[i]) < n {
			after[i] = s.add(after[i])
		}
	}
	share := func(partitions int) int { return (partitions + len(s.brokers) - 1) / len(s.brokers) }
	var moves []moveLine
	for i, p := range parts {
		s.lead(p, after[i], share(perTopic[p.topic]), share(len(parts)))
		if !slices.Equal(after[i], p.replicas) {
			moves = append(moves, moveLine{"move", p.topic, p.partition, p.replicas, after[i]})
		}
	}
	return moves
}

// A spread counts what each broker has in a plan.
type spread struct {
	brokers    []int32 // live, sorted
	racks      map[int32]string
	replicas   map[int32]int
	leads      map[int32]int // preferred leaderships
	topicLeads map[string]map[int32]int
}

// keep returns the replicas of p that stay, at most n: the leader first, then in-sync replicas in
// racks of their own, then others.
func (s *spread) keep(p replicaSet, n int) []int32 {
	var kept []int32
	take := func(may func(id int32) bool) {
		for _, id := range p.replicas {
			if _, live := s.racks[id]; live && len(kept) < n && !slices.Contains(kept, id) && may(id) {
				kept = append(kept, id)
				s.replicas[id]++
			}
		}
	}
	inSync := func(id int32) bool { return slices.Contains(p.isr, id) }
	take(func(id int32) bool { return id == p.leader })
	take(func(id int32) bool { return inSync(id) && !s.sharesRack(kept, id) })
	take(inSync)
	take(func(int32) bool { return true })
	// Kept replicas stay in the order of the present list, so that nothing changes without need.
	order := func(id int32) int { return slices.Index(p.replicas, id) }
	slices.SortFunc(kept, func(a, b int32) int { return order(a) - order(b) })
	return kept
}

// sharesRack reports whether one of the replicas is in the rack of broker id.
func (s *spread) sharesRack(replicas []int32, id int32) bool {
	return slices.ContainsFunc(replicas, func(other int32) bool { return s.racks[other] == s.racks[id] })
}

// add appends the best further broker for a partition.
func (s *spread) add(replicas []int32) []int32 {
	best, bestShares := int32(-1), false
	for _, id := range s.brokers {
		if slices.Contains(replicas, id) {
			continue
		}
		shares := s.sharesRack(replicas, id)
		if best < 0 || bestShares && !shares || bestShares == shares && s.replicas[id] < s.replicas[best] {
			best, bestShares = id, shares
		}
	}
	s.replicas[best]++
	return append(replicas, best)
}

// lead puts the preferred leader of p first: the present first replica or the leader, unless that
// broker has its share of the topic's or of all partitions, else the replica that leads fewest.
func (s *spread) lead(p replicaSet, replicas []int32, topicShare, share int) {
	led := s.topicLeads[p.topic]
	if led == nil {
		led = map[int32]int{}
		s.topicLeads[p.topic] = led
	}
	fits := func(id int32) bool {
		return slices.Contains(replicas, id) && led[id] < topicShare && s.leads[id] < share
	}
	first := replicas[0]
	switch {
	case len(replicas) == len(p.replicas) && !slices.ContainsFunc(replicas, func(id int32) bool { return !slices.Contains(p.replicas, id) }):
		// the same brokers: the order is not this command's business
	case fits(p.leader):
		first = p.leader
	default:
		for _, id := range replicas {
			if led[id] < led[first] || led[id] == led[first] && s.leads[id] < s.leads[first] {
				first = id
			}
		}
	}
	at := slices.Index(replicas, first)
	copy(replicas[1:at+1], replicas[:at])
	replicas[0] = first
	led[first]++
	s.leads[first]++
}

// moveLine is the change of one partition's replicas; the first replica is the preferred leader.
type moveLine struct {
	Type      string  `json:"type"`
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Before    []int32 `json:"before"`
	After     []int32 `json:"after"`
}

func (l moveLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s-%d: replicas %s become %s\n", l.Topic, l.Partition, brokerList(l.Before), brokerList(l.After))
}

func brokerList(ids []int32) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(ids), "[]")), ",")
}

type reassignedLine struct {
	Type       string `json:"type"`
	Partitions int    `json:"partitions"`
	DryRun     bool   `json:"dryRun"` // nothing was changed
}

func (l reassignedLine) writeText(w io.Writer) {
	switch {
	case l.DryRun:
		fmt.Fprintf(w, "%d partitions to reassign, nothing is changed\n", l.Partitions)
	default:
		fmt.Fprintf(w, "%d partitions reassigned\n", l.Partitions)
	}
}
