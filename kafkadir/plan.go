package kafkadir

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A plan lists the parts of an import. It does no I/O.
type plan struct {
	node    int32
	cluster string
	clean   bool
	meta    *metadata // nil: there is none
	topics  []*topicPlan
	total   int64 // bytes of files
	missing []MissingPartition
	leftOut []string
}

type topicPlan struct {
	name         string
	id           topic.ID
	config       map[string]string
	retentionOff bool
	parts        []partPlan
	bytes        int64
}

// partPlan is a partition. Without a source it is to be empty.
type partPlan struct {
	tp     record.TopicPartition
	topic  topic.ID
	from   *source
	found  found
	epoch  int32 // that the metadata know last
	copied copied

	compacted bool // according to the metadata
}

// newPlan compares the directories of one broker with its metadata. names are the topics that are
// wanted; none: all.
func newPlan(sources []*source, meta *metadata, names []string) (*plan, error) {
	p := &plan{node: sources[0].node, cluster: sources[0].cluster, clean: true, meta: meta}
	dirs := map[record.TopicPartition]*source{}
	for _, s := range sources {
		p.clean = p.clean && s.clean
		p.leftOut = append(p.leftOut, s.leftOut...)
		for tp, f := range s.partitions {
			if other := dirs[tp]; other != nil {
				return nil, damaged(f.dir, "%s has the partition too", other.dir)
			}
			dirs[tp] = s
		}
	}
	var err error
	if meta == nil {
		p.topics, err = p.topicsOfFiles(dirs)
	} else {
		err = p.topicsOfMetadata(sources, dirs)
	}
	if err != nil {
		return nil, err
	}
	if err := p.choose(names); err != nil {
		return nil, err
	}
	for _, t := range p.topics {
		p.configure(t)
		for i := range t.parts {
			t.parts[i].topic, t.parts[i].compacted = t.id, p.compacts(t)
		}
	}
	p.leaveOutConfigs()
	slices.Sort(p.leftOut)
	return p, nil
}

// takenOver has the types of resources whose configurations are imported.
var takenOver = []int8{metarecord.ResourceTopic, metarecord.ResourceBroker, metarecord.ResourceClientMetrics, metarecord.ResourceGroup}

// leaveOutConfigs notes the settings of resources of other types.
func (p *plan) leaveOutConfigs() {
	if p.meta == nil {
		return
	}
	for kind, names := range p.meta.configs {
		if slices.Contains(takenOver, kind) {
			continue
		}
		for name, config := range names {
			for k, v := range config {
				p.leftOut = append(p.leftOut, fmt.Sprintf("resource %q of type %d: %s=%s is not taken over", name, kind, k, v))
			}
		}
	}
}

// choose drops the topics that are not in names. Internal topics are always kept: they have the
// offsets of groups and the states of transactions.
func (p *plan) choose(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(p.topics, func(t *topicPlan) bool { return t.name == name }) {
			return fmt.Errorf("%w: %q", ErrUnknownTopic, name)
		}
	}
	wanted := func(name string) bool {
		return len(names) == 0 || topic.IsInternal(name) || slices.Contains(names, name)
	}
	p.topics = slices.DeleteFunc(p.topics, func(t *topicPlan) bool { return !wanted(t.name) })
	p.missing = slices.DeleteFunc(p.missing, func(m MissingPartition) bool { return !wanted(m.Topic) })
	for _, t := range p.topics {
		for _, part := range t.parts {
			p.total += part.found.bytes
		}
	}
	return nil
}

// topicsOfMetadata plans the topics of the metadata, with the partitions that have files.
func (p *plan) topicsOfMetadata(sources []*source, dirs map[record.TopicPartition]*source) error {
	for _, kt := range p.meta.sortedTopics() {
		t := &topicPlan{name: kt.name, id: kt.id, config: maps.Clone(p.meta.configs[metarecord.ResourceTopic][kt.name])}
		for n := range int32(len(kt.partitions)) {
			kp := kt.partitions[n]
			if kp == nil {
				return fmt.Errorf("%w: the metadata of topic %q lack partition %d", ErrDamaged, kt.name, n)
			}
			part := partPlan{tp: record.TopicPartition{Topic: kt.name, Partition: n}, epoch: kp.leaderEpoch}
			if s := dirs[part.tp]; s != nil {
				if f := s.partitions[part.tp]; f.id == kt.id || f.id.IsZero() {
					part.from, part.found = s, f
					part.epoch = max(part.epoch, f.epoch)
				}
			}
			if why := p.absent(sources, kp, part); why != "" {
				p.missing = append(p.missing, MissingPartition{part.tp, why})
			}
			t.parts = append(t.parts, part)
		}
		p.topics = append(p.topics, t)
	}
	for tp, s := range dirs {
		id, known := p.meta.names[tp.Topic]
		f := s.partitions[tp]
		if !known || f.id != id && !f.id.IsZero() || int(tp.Partition) >= len(p.meta.topics[id].partitions) {
			p.leftOut = append(p.leftOut, f.dir+": the metadata have no such topic")
		}
	}
	return nil
}

// absent returns why a partition is not all there; "": it is.
func (p *plan) absent(sources []*source, kp *kafkaPartition, part partPlan) string {
	switch here := slices.Contains(kp.replicas, p.node); {
	case part.from != nil && !kp.whole(p.node) && len(kp.replicas) > 1:
		return fmt.Sprintf("the replica is not in sync, %v are", kp.isr)
	case part.from != nil:
		return ""
	case !here:
		return fmt.Sprintf("its replicas are on brokers %v", kp.replicas)
	case len(p.meta.directories[p.node]) > len(sources):
		return fmt.Sprintf("broker %d has %d log directories, these are %d", p.node, len(p.meta.directories[p.node]), len(sources))
	}
	return "it has no directory"
}

// topicsOfFiles has the topics that there are directories of.
func (p *plan) topicsOfFiles(dirs map[record.TopicPartition]*source) ([]*topicPlan, error) {
	byName := map[string]*topicPlan{}
	for _, tp := range slices.SortedFunc(maps.Keys(dirs), compareTP) {
		s := dirs[tp]
		f := s.partitions[tp]
		t := byName[tp.Topic]
		if t == nil {
			t = &topicPlan{name: tp.Topic, config: map[string]string{}}
			byName[tp.Topic] = t
		}
		switch {
		case t.id.IsZero():
			t.id = f.id
		case f.id != t.id && !f.id.IsZero():
			return nil, damaged(f.dir, "its topic has id %v, that of the partitions before has %v", f.id, t.id)
		}
		if int(tp.Partition) >= maxPartitions {
			return nil, damaged(f.dir, "more than %d partitions", maxPartitions)
		}
		for n := int32(len(t.parts)); n < tp.Partition; n++ {
			empty := partPlan{tp: record.TopicPartition{Topic: tp.Topic, Partition: n}}
			t.parts = append(t.parts, empty)
			p.missing = append(p.missing, MissingPartition{empty.tp, "it has no directory, and there are no metadata"})
		}
		t.parts = append(t.parts, partPlan{tp: tp, from: s, found: f, epoch: max(f.epoch, 0)})
	}
	topics := slices.SortedFunc(maps.Values(byName), func(a, b *topicPlan) int { return cmp.Compare(a.name, b.name) })
	for _, t := range topics {
		if t.id.IsZero() {
			t.id = topic.NewID()
		}
	}
	return topics, nil
}

// maxPartitions bounds the partitions of a topic that is known only from names of directories.
const maxPartitions = 10_000

func compareTP(a, b record.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// internalTopics has the settings that Kafka gives its own topics. They are used without metadata.
var internalTopics = map[string]map[string]string{
	"__consumer_offsets":  {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
	txnlog.Topic:          {"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600", "unclean.leader.election.enable": "false"},
	"__share_group_state": {"cleanup.policy": "delete", "compression.type": "none", "segment.bytes": "104857600", "retention.ms": "-1"},
}

// configure leaves out the settings that Strata does not have. It turns retention off for a topic
// whose retention depends on server.properties, which is in no log directory.
func (p *plan) configure(t *topicPlan) {
	if p.meta == nil {
		maps.Copy(t.config, internalTopics[t.name])
	}
	kept := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(t.config)) {
		kept[k] = t.config[k]
		if _, err := topic.Parse(kept, nil); err != nil {
			delete(kept, k)
			p.leaveOut("topic "+t.name, err)
		}
	}
	t.config = kept
	s, err := topic.Parse(kept, nil)
	_, own := kept["retention.ms"]
	if _, all := p.brokerConfig("")["log.retention.ms"]; err == nil && s.Deleted() && !own && !all {
		t.config["retention.ms"], t.retentionOff = "-1", true
	}
}

// compacts reports whether a topic is compacted, by its own settings or by those of all topics in
// the metadata.
func (p *plan) compacts(t *topicPlan) bool {
	for _, config := range []map[string]string{t.config, p.brokerConfig(strconv.Itoa(int(p.node))), p.brokerConfig("")} {
		for _, key := range []string{"cleanup.policy", "log.cleanup.policy"} {
			if policy, ok := config[key]; ok {
				return strings.Contains(policy, "compact")
			}
		}
	}
	return false
}

// leaveOut notes every complaint of err.
func (p *plan) leaveOut(of string, err error) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, err := range several.Unwrap() {
			p.leaveOut(of, err)
		}
		return
	}
	p.leftOut = append(p.leftOut, of+": "+err.Error())
}

// brokerConfig returns the settings that a broker, or all brokers (""), got while running.
func (p *plan) brokerConfig(name string) map[string]string {
	if p.meta == nil {
		return nil
	}
	return p.meta.configs[metarecord.ResourceBroker][name]
}

// defaults returns the settings of all topics in the metadata. A setting of the broker itself
// replaces one of all brokers.
func (p *plan) defaults() map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.brokerConfig(""))
	maps.Copy(all, p.brokerConfig(strconv.Itoa(int(p.node))))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		key, ok := topic.LookupBrokerKey(k)
		if !ok {
			p.leftOut = append(p.leftOut, fmt.Sprintf("broker %d: %s=%s: Strata has no such setting", p.node, k, all[k]))
			delete(all, k)
		} else if _, err := topic.Parse(map[string]string{key.Name: all[k]}, nil); err != nil {
			p.leaveOut(fmt.Sprintf("broker %d", p.node), err)
			delete(all, k)
		}
	}
	return all
}
