package kafka

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// configSource is the source of a value. Kafka: DescribeConfigsResponse.ConfigSource.
type configSource int8

const (
	sourceTopic         configSource = 1 // set on the topic
	sourceBroker        configSource = 2 // set on the broker while it runs
	sourceBrokerDefault configSource = 3 // set on all brokers while they run
	sourceStatic        configSource = 4 // given when the cluster was opened
	sourceDefault       configSource = 5 // built in
	sourceClientMetrics configSource = 7 // set on the client-metrics resource
	sourceGroup         configSource = 8 // set on the group
)

// configLayer is the value of one source, with the key that the source uses.
type configLayer struct {
	name, value string
	source      configSource
}

// configEntry is one configuration as the tools show it.
type configEntry struct {
	configLayer               // the effective one
	null        bool          // it has no value
	layers      []configLayer // of every source that has a value, the effective one first
	readOnly    bool
	kind        topic.ValueType
	doc         string
}

// brokerLayers are the values that brokers give to the settings of topics, by the topic's keys
// and in the order in which they count.
type brokerLayers struct{ broker, all, static map[string]string }

func (c *call) brokerLayers(broker int32) brokerLayers {
	return brokerLayers{
		broker: c.s.cluster.BrokerConfig(broker),
		all:    c.s.cluster.BrokerConfig(replication.AllBrokers),
		static: c.s.cluster.StaticDefaults(),
	}
}

// appendTo appends the layers of a key below the topic itself. Keys that brokers have no name for
// have only what was given at the opening. Of keys with several names among brokers the default is
// the last name's, in its unit, and is told beside what is set by the first one only, as in Kafka:
// nothing is set, and log.retention.ms is null, though log.retention.hours is not.
func (b brokerLayers) appendTo(layers []configLayer, k *topic.Key, fallback string) []configLayer {
	name := k.Name
	if len(k.Synonyms) > 0 {
		name = k.Synonyms[0]
	}
	above := len(layers)
	add := func(values map[string]string, key string, source configSource) {
		if v, ok := values[key]; ok {
			layers = append(layers, configLayer{name, v, source})
		}
	}
	add(b.broker, name, sourceBroker)
	add(b.all, name, sourceBrokerDefault)
	add(b.static, k.Name, sourceStatic)
	switch last := len(k.Synonyms) - 1; {
	case last == 0:
		layers = append(layers, configLayer{name, fallback, sourceDefault})
	case last > 0 && len(layers) > above:
		layers = append(layers, configLayer{k.Synonyms[last], inUnitOf(k.Synonyms[last], fallback), sourceDefault})
	}
	return layers
}

// inUnitOf returns milliseconds as a number in the unit that a broker's name of a setting ends
// with.
func inUnitOf(name, millis string) string {
	if n, err := strconv.ParseInt(millis, 10, 64); err == nil && strings.HasSuffix(name, ".hours") {
		return strconv.FormatInt(n/time.Hour.Milliseconds(), 10)
	}
	return millis
}

// topicEntries are the settings of a topic as a broker sees them.
func (c *call) topicEntries(s topic.Settings, broker int32) []configEntry {
	described, brokers, explicit := s.Describe(), c.brokerLayers(broker), s.Explicit()
	entries := make([]configEntry, len(described))
	layers := make([]configLayer, 0, 2*len(described)) // of all entries
	for i := range described {
		d, e, first := &described[i], &entries[i], len(layers)
		*e = configEntry{configLayer: configLayer{d.Key.Name, d.Value, sourceDefault}, kind: d.Key.Type, doc: d.Key.Doc}
		if v, ok := explicit[d.Key.Name]; ok {
			layers = append(layers, configLayer{d.Key.Name, v, sourceTopic})
		}
		layers = brokers.appendTo(layers, &d.Key, d.Layers[len(d.Layers)-1].Value)
		if e.layers = layers[first:len(layers):len(layers)]; len(e.layers) > 0 {
			e.source = e.layers[0].source
		}
	}
	return entries
}

// brokerEntries returns the settings of the broker that serves the call, by name: the defaults of
// topics and the throttle rates that are set, which can be changed live, and the broker's own
// settings, which cannot.
func (c *call) brokerEntries() []configEntry {
	entries := c.staticEntries()
	layers := c.brokerLayers(c.broker)
	defaults, _ := topic.Parse(nil, layers.static)
	for _, d := range defaults.Describe() {
		if len(d.Key.Synonyms) == 0 {
			continue
		}
		e := configEntry{layers: layers.appendTo(nil, &d.Key, d.Layers[len(d.Layers)-1].Value), kind: d.Key.Type, doc: d.Key.Doc}
		if e.null = len(e.layers) == 0; e.null {
			e.configLayer = configLayer{d.Key.Synonyms[0], "", sourceDefault}
		} else {
			e.configLayer = e.layers[0]
		}
		entries = append(entries, e)
	}
	entries = append(entries, rateEntries(layers)...)
	slices.SortFunc(entries, func(a, b configEntry) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return entries
}

// rateEntries are what was set on the broker, or on all, that is no default of a topic.
func rateEntries(layers brokerLayers) []configEntry {
	set := map[string]bool{}
	for _, layer := range []map[string]string{layers.broker, layers.all} {
		for name := range layer {
			if _, ofTopics := topic.LookupBrokerKey(name); !ofTopics {
				set[name] = true
			}
		}
	}
	var entries []configEntry
	for name := range set {
		k, _ := replication.LookupBrokerKey(name)
		e := configEntry{layers: layers.appendTo(nil, &k, ""), kind: k.Type, doc: k.Doc}
		e.configLayer = e.layers[0]
		entries = append(entries, e)
	}
	return entries
}

// allBrokersEntries returns the settings that were changed on all brokers.
func (c *call) allBrokersEntries() []configEntry {
	set := c.s.cluster.BrokerConfig(replication.AllBrokers)
	var entries []configEntry
	for _, name := range slices.Sorted(maps.Keys(set)) {
		k, _ := replication.LookupBrokerKey(name)
		l := configLayer{name, set[name], sourceBrokerDefault}
		entries = append(entries, configEntry{configLayer: l, layers: []configLayer{l}, kind: k.Type, doc: k.Doc})
	}
	return entries
}

// groupEntries are the settings of a group, whether there is such a group or not: what is set on
// it, and the broker's below that.
func (c *call) groupEntries(id string) []configEntry {
	described := c.s.cluster.ConfigEntries(id)
	entries := make([]configEntry, len(described))
	for i, d := range described {
		e := configEntry{kind: d.Key.Type, doc: d.Key.Doc}
		if d.IsSet {
			e.layers = append(e.layers, configLayer{d.Key.Name, d.Set, sourceGroup})
		}
		if d.Static != d.Key.Default {
			e.layers = append(e.layers, configLayer{d.Key.Synonyms[0], d.Static, sourceStatic})
		}
		e.layers = append(e.layers, configLayer{d.Key.Synonyms[0], d.Key.Default, sourceDefault})
		e.configLayer = configLayer{d.Key.Name, e.layers[0].value, e.layers[0].source}
		entries[i] = e
	}
	return entries
}
