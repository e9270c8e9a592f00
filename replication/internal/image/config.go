package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stratalog/strata/internal/metarecord"
)

// AlterTopic returns the records that change a topic's configuration, and their consequences for
// its partitions. edit changes a copy of the configuration in place, or returns an error; factor is
// the number of the topic's replicas.
func (m *Image) AlterTopic(name string, policy Policy, edit func(config map[string]string, factor int) error) ([]metarecord.Record, error) {
	t := m.Topics[name]
	if t == nil {
		return nil, &UnknownTopicError{name}
	}
	factor := 1
	if len(t.Partitions) > 0 {
		factor = len(t.Partitions[0].Replicas)
	}
	config := maps.Clone(t.Config)
	if err := edit(config, factor); err != nil {
		return nil, err
	}
	recs := ConfigRecords(metarecord.ResourceTopic, name, t.Config, config)
	return m.reconsider(recs, t, policy, m, config), nil
}

// ConfigRecords returns the records that turn one configuration of a resource into another.
func ConfigRecords(kind int8, name string, from, to map[string]string) []metarecord.Record {
	var recs []metarecord.Record
	for _, k := range sortedKeys(from) {
		if _, stays := to[k]; !stays {
			recs = append(recs, &metarecord.Config{ResourceType: kind, ResourceName: name, Name: k})
		}
	}
	for _, k := range sortedKeys(to) {
		if v, had := from[k]; !had || v != to[k] {
			v := to[k]
			recs = append(recs, &metarecord.Config{ResourceType: kind, ResourceName: name, Name: k, Value: &v})
		}
	}
	return recs
}

// sortedKeys returns the sorted keys. It is cheap for an empty map, the usual configuration of a
// topic.
func sortedKeys(config map[string]string) []string {
	if len(config) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(config))
}

// AllBrokers stands for every broker in AlterBroker and BrokerResource.
const AllBrokers int32 = -1

// AlterBroker returns the records that change the configuration of a broker, or of AllBrokers, and
// their consequences for partitions. edit returns the new configuration, by the broker's keys, or
// an error; it must not write to its argument.
func (m *Image) AlterBroker(id int32, policy Policy, edit func(before map[string]string) (after map[string]string, err error)) ([]metarecord.Record, error) {
	if _, known := m.Members[id]; !known && id != AllBrokers {
		return nil, fmt.Errorf("%w: %d", ErrUnknownBroker, id)
	}
	resource := BrokerResource(id)
	before := m.BrokerConfigs[resource]
	after, err := edit(before)
	if err != nil {
		return nil, err
	}
	recs := ConfigRecords(metarecord.ResourceBroker, resource, before, after)
	later := m.after(recs)
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		recs = m.reconsider(recs, m.Topics[name], policy, later, m.Topics[name].Config)
	}
	return recs, nil
}

// BrokerResource returns the name of a broker in configuration records. Kafka: the empty name is
// the default of all brokers.
func BrokerResource(id int32) string {
	if id == AllBrokers {
		return ""
	}
	return strconv.Itoa(int(id))
}
