package kafka

import (
	"github.com/stratalog/strata/topic"
)

// configSource says where a value comes from. Kafka: DescribeConfigsResponse.ConfigSource.
type configSource int8

const (
	sourceTopic         configSource = 1 // set on the topic
	sourceBroker        configSource = 2 // set on the broker while it runs
	sourceBrokerDefault configSource = 3 // set on all brokers while they run
	sourceStatic        configSource = 4 // given when the cluster was opened
	sourceDefault       configSource = 5 // built in
)

// configLayer is the value that one source gives, under the name it has there.
type configLayer struct {
	name, value string
	source      configSource
}

// configEntry is one configuration as the tools show it.
type configEntry struct {
	configLayer               // the effective one
	layers      []configLayer // of every source that has a value, the effective one first
	readOnly    bool
	kind        topic.ValueType
	doc         string
}

// topicEntries are the settings of a topic.
func (c *call) topicEntries(s topic.Settings) []configEntry {
	described := s.Describe()
	entries := make([]configEntry, len(described))
	for i, d := range described {
		e := configEntry{configLayer: configLayer{d.Key.Name, d.Value, sourceDefault}, kind: d.Key.Type, doc: d.Key.Doc}
		for _, l := range d.Layers {
			switch {
			case l.Source == topic.SourceTopic:
				e.layers = append(e.layers, configLayer{d.Key.Name, l.Value, sourceTopic})
			case len(d.Key.Synonyms) == 0: // brokers have no name for it
			case l.Source == topic.SourceCluster:
				e.layers = append(e.layers, configLayer{d.Key.Synonyms[0], l.Value, sourceStatic})
			default:
				e.layers = append(e.layers, configLayer{d.Key.Synonyms[0], l.Value, sourceDefault})
			}
		}
		if len(e.layers) > 0 {
			e.source = e.layers[0].source
		}
		entries[i] = e
	}
	return entries
}
