package topic

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A Key describes one configuration key of a topic. It is a value; the slices of Synonyms are
// shared and must not be written to.
type Key struct {
	Name    string
	Type    ValueType
	Default string // as text; Kafka's, except for flush.messages
	// Valid describes the accepted values in words or as an interval, in Kafka's spelling where
	// there is one.
	Valid    string
	Synonyms []string // Apache Kafka's broker settings for the default, the most specific first
	Doc      string
	Internal bool // listed by Describe only if it is set

	check  func(value) string // why a well-typed value is not accepted; "": it is
	preset value              // Default, parsed
}

// Keys returns every configuration key, sorted by name. The caller owns the slice.
func Keys() []Key { return slices.Clone(keys) }

// LookupKey returns the key with this name.
func LookupKey(name string) (Key, bool) {
	k := lookup(name)
	if k == nil {
		return Key{}, false
	}
	return *k, true
}

// lookup is LookupKey without a copy: the settings of a partition are some 25 keys, read whenever
// it is opened.
func lookup(name string) *Key {
	i := sort.Search(len(keys), func(i int) bool { return keys[i].Name >= name })
	if i == len(keys) || keys[i].Name != name {
		return nil
	}
	return &keys[i]
}

// LookupBrokerKey returns the key for which the broker setting name is the default of all topics,
// for example log.retention.ms. It accepts only names that Kafka can change while a broker runs,
// not log.retention.hours and the like.
func LookupBrokerKey(name string) (Key, bool) {
	for _, k := range keys {
		if len(k.Synonyms) > 0 && k.Synonyms[0] == name {
			return k, true
		}
	}
	return Key{}, false
}

// read parses and checks a value of the key.
func (k Key) read(text string) (value, error) {
	v, reason := k.Type.parse(text)
	if reason == "" && k.check != nil {
		reason = k.check(v)
	}
	if reason != "" {
		return value{}, &ConfigError{Key: k.Name, Value: text, Reason: reason}
	}
	return v, nil
}

// Value bounds. Each returns the interval's text and the check, to be spread over a table row.

func atLeast(low int64) (string, func(value) string) {
	return fmt.Sprintf("[%d,...]", low), func(v value) string {
		if v.n < low {
			return "must be at least " + strconv.FormatInt(low, 10)
		}
		return ""
	}
}

func oneOf(names ...string) (string, func(value) string) {
	list := "[" + strings.Join(names, ", ") + "]"
	return list, func(v value) string {
		if !slices.Contains(names, v.s) {
			return "must be one of " + strings.Join(names, ", ")
		}
		return ""
	}
}

func anyOf(names ...string) (string, func(value) string) {
	return "[" + strings.Join(names, ", ") + "]", func(v value) string {
		for i, s := range v.l {
			if !slices.Contains(names, s) {
				return "must be a list of " + strings.Join(names, ", ")
			}
			if slices.Contains(v.l[:i], s) {
				return "names " + s + " twice"
			}
		}
		return ""
	}
}

func ratio() (string, func(value) string) {
	return "[0,...,1]", func(v value) string {
		switch {
		case v.f < 0:
			return "must be at least 0"
		case v.f > 1:
			return "must be no more than 1"
		}
		return ""
	}
}

// only accepts a single value of a setting that cannot be honoured here in any other way.
func only(t ValueType, text, why string) (string, func(value) string) {
	want, _ := t.parse(text)
	spelled := text
	if t == TypeList {
		spelled = "[" + text + "]"
	}
	return "only " + spelled, func(v value) string {
		if !v.equal(want) {
			return why + "; only " + spelled + " is accepted"
		}
		return ""
	}
}

// replicas accepts what ListsReplica reads. Kafka: ThrottledReplicaListValidator.
func replicas() (string, func(value) string) {
	const form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
	return form, func(v value) string {
		if strings.Join(v.l, "") == "*" {
			return ""
		}
		for _, item := range v.l {
			partition, broker, ok := strings.Cut(item, ":")
			if item != "" && (!ok || !isNumber(partition) || !isNumber(broker)) {
				return "must be * or a list of partition:broker"
			}
		}
		return ""
	}
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// ListsReplica reports whether list contains a replica of its topic: as partition:broker, or
// because it is "*". list is a value of leader.replication.throttled.replicas or
// follower.replication.throttled.replicas.
func ListsReplica(list string, partition, broker int32) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "*" {
			return true
		}
		p, b, ok := strings.Cut(item, ":")
		if ok && isID(p, partition) && isID(b, broker) {
			return true
		}
	}
	return false
}

func isID(text string, id int32) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n == int64(id)
}

func key(name string, t ValueType, def string, synonyms string, bounds func() (string, func(value) string), doc string) Key {
	k := Key{Name: name, Type: t, Default: def, Doc: doc}
	if synonyms != "" {
		k.Synonyms = strings.Fields(synonyms)
	}
	k.Valid, k.check = bounds()
	k.preset, _ = t.parse(def) // a test reads all defaults
	return k
}

func min0() (string, func(value) string)      { return atLeast(0) }
func min1() (string, func(value) string)      { return atLeast(1) }
func minus1() (string, func(value) string)    { return atLeast(-1) }
func unbounded() (string, func(value) string) { return "any", nil }
func boolean() (string, func(value) string)   { return "[true, false]", nil }

const (
	noTiering = "there is no tiered storage"
	noLevels  = "the level of compression cannot be chosen"

	maxLong = "9223372036854775807"
)
