package topic

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A ConfigError reports a rejected setting. Config.Properties and the fields of Config are both
// reported by Kafka's key; fields of broker and group configurations by their names.
type ConfigError struct {
	Key    string
	Value  string
	Reason string
}

func (e *ConfigError) Error() string {
	return "topic: invalid configuration " + e.Key + "=" + strconv.Quote(e.Value) + ": " + e.Reason
}

// Source is the origin of an effective value.
type Source uint8

const (
	SourceDefault Source = iota // not set
	SourceCluster               // set in the cluster's defaults for all topics
	SourceTopic                 // set on the topic itself
)

// String returns Kafka's name of the source.
func (s Source) String() string {
	switch s {
	case SourceTopic:
		return "DYNAMIC_TOPIC_CONFIG"
	case SourceCluster:
		return "STATIC_BROKER_CONFIG"
	}
	return "DEFAULT_CONFIG"
}

// Settings are the effective settings of a topic. A topic's own settings take precedence over the
// cluster's defaults, and these over the built-in ones. The zero Settings are the built-in
// defaults. Settings are read-only and safe for concurrent use.
type Settings struct{ topic, cluster map[string]string }

// A Setting is one effective value with its key and its source.
type Setting struct {
	Key    Key
	Value  string
	Source Source

	// Layers are the values of every source that sets the key, the effective one first; the last is
	// the built-in default.
	Layers []Layer
}

// A Layer is the value of one source for a key.
type Layer struct {
	Source Source
	Value  string
}

// Parse checks the keys set on a topic and combines them with the cluster's defaults. Either may be
// nil; both are copied. The error joins a *ConfigError for every key that is unknown, ill-typed,
// out of bounds or in conflict with another one.
func Parse(topic, cluster map[string]string) (Settings, error) {
	s := Settings{topic: copied(topic), cluster: copied(cluster)}
	var errs []error
	for _, layer := range []map[string]string{s.cluster, s.topic} {
		if len(layer) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(layer)) {
			k := lookup(name)
			if k == nil {
				errs = append(errs, &ConfigError{Key: name, Value: layer[name], Reason: "there is no such topic configuration"})
			} else if _, err := k.read(layer[name]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) > 0 {
		return Settings{}, errors.Join(errs...)
	}
	if low, high := s.num("min.compaction.lag.ms"), s.num("max.compaction.lag.ms"); low > high {
		return Settings{}, &ConfigError{Key: "min.compaction.lag.ms", Value: strconv.FormatInt(low, 10),
			Reason: "must be at most max.compaction.lag.ms, which is " + strconv.FormatInt(high, 10)}
	}
	return s, nil
}

// copied returns a copy of m, nil for an empty one.
func copied(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// Explicit returns a copy of the settings of the topic itself; it is not nil.
func (s Settings) Explicit() map[string]string {
	m := make(map[string]string, len(s.topic))
	maps.Copy(m, s.topic)
	return m
}

// Value returns the effective value of a key and its source. An unknown key has an empty value.
func (s Settings) Value(name string) (string, Source) {
	if v, ok := s.topic[name]; ok {
		return v, SourceTopic
	}
	if v, ok := s.cluster[name]; ok {
		return v, SourceCluster
	}
	return s.fallback(name), SourceDefault
}

// fallback returns the built-in default. The default of flush.messages depends on whether flush.ms
// is set.
func (s Settings) fallback(name string) string {
	if name == "flush.messages" && s.isSet("flush.ms") {
		return maxLong
	}
	if k := lookup(name); k != nil {
		return k.Default
	}
	return ""
}

func (s Settings) isSet(name string) bool {
	_, source := s.Value(name)
	return source != SourceDefault
}

// Describe returns every setting, sorted by key; internal keys only where they are set. The caller
// owns the result.
func (s Settings) Describe() []Setting {
	all := make([]Setting, 0, len(keys))
	layers := make([]Layer, 0, len(keys)+len(s.topic)+len(s.cluster)) // of all keys
	for i := range keys {
		k := &keys[i]
		v, source := s.Value(k.Name)
		if k.Internal && source == SourceDefault {
			continue
		}
		first := len(layers)
		layers = s.appendLayers(layers, k.Name)
		all = append(all, Setting{Key: *k, Value: v, Source: source, Layers: layers[first:len(layers):len(layers)]})
	}
	return all
}

// appendLayers appends the values of a key to ls, those that Setting.Layers has.
func (s Settings) appendLayers(ls []Layer, name string) []Layer {
	if v, ok := s.topic[name]; ok {
		ls = append(ls, Layer{SourceTopic, v})
	}
	if v, ok := s.cluster[name]; ok {
		ls = append(ls, Layer{SourceCluster, v})
	}
	return append(ls, Layer{SourceDefault, s.fallback(name)})
}

// parsed returns the effective value of a key of the table; Parse made sure that it is well typed.
func (s Settings) parsed(name string) value {
	k := lookup(name)
	text, source := s.Value(name)
	if source == SourceDefault && name != "flush.messages" { // whose default depends on another key
		return k.preset
	}
	v, _ := k.Type.parse(text)
	return v
}

func (s Settings) num(name string) int64 { return s.parsed(name).n }

// duration returns a key in milliseconds, at most the longest Duration (292 years).
func (s Settings) duration(name string) time.Duration { return millis(s.num(name)) }

func millis(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms > most {
		return 1<<63 - 1
	}
	return time.Duration(ms) * time.Millisecond
}

// MinInSyncReplicas returns min.insync.replicas, at most the given number of replicas of the
// partition. Kafka: effectiveMinIsr.
func (s Settings) MinInSyncReplicas(replicas int) int {
	return int(min(s.num("min.insync.replicas"), int64(max(replicas, 1))))
}

// UncleanLeaderElection returns unclean.leader.election.enable.
func (s Settings) UncleanLeaderElection() bool { return s.parsed("unclean.leader.election.enable").b }

// Compacted reports whether cleanup.policy contains compact.
func (s Settings) Compacted() bool { return slices.Contains(s.parsed("cleanup.policy").l, "compact") }

// Deleted reports whether cleanup.policy contains delete.
func (s Settings) Deleted() bool { return slices.Contains(s.parsed("cleanup.policy").l, "delete") }
