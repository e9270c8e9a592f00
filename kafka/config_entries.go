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

// configEntry is one entry of a configuration, as DescribeConfigs returns it.
type configEntry struct {
	configLayer               // the effective one
	null        bool          // no source has a value
	layers      []configLayer // of every source with a value, the effective one first
	readOnly    bool
	kind        topic.ValueType
	doc         string
}

// brokerLayers are the settings of brokers, in order of precedence: of one broker, of all brokers,
// and those given when the cluster was opened. broker and all are by the broker's keys, static is
// by the topic's keys.
type brokerLayers struct{ broker, all, static map[string]string }

func (c *call) brokerLayers(broker int32) brokerLayers {
	return brokerLayers{
		broker: c.s.cluster.BrokerConfig(broker),
		all:    c.s.cluster.BrokerConfig(replication.AllBrokers),
		static: c.s.cluster.StaticDefaults(),
	}
}

// appendTo appends the layers of a key below the topic's own. A key without a name among broker
// settings has only the value given when the cluster was opened.
//
// A key with several broker names has its default under the last name, in the unit of that name.
// As in Kafka, the default is appended only if a value is set. Otherwise there is no layer:
// log.retention.ms is null, although log.retention.hours has a value.
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

// inUnitOf converts milliseconds to the unit at the end of a broker setting's name.
func inUnitOf(name, millis string) string {
	if n, err := strconv.ParseInt(millis, 10, 64); err == nil && strings.HasSuffix(name, ".hours") {
		return strconv.FormatInt(n/time.Hour.Milliseconds(), 10)
	}
	return millis
}

// topicEntries returns the settings of a topic on a broker.
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

// brokerEntries returns the settings of the broker that serves the call, by name. The defaults of
// topics and the throttle rates that are set can be changed while it runs; its own settings
// cannot.
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

// rateEntries returns the settings of the broker, or of all brokers, that are not defaults of
// topics: the throttle rates.
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

// groupEntries returns the settings of a group, whether or not it exists. Each has the value set
// on the group, if any, above the value of the broker.
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
