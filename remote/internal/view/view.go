// Package view merges the metadata of a cluster from the responses of its brokers. Brokers learn of
// changes one after the other, so a response may be older than the one before it.
package view

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/replication"
)

// Doubt is the time for which a topic must be missing from responses before it counts as missing:
// a broker may learn of a new topic later than others.
const Doubt = 500 * time.Millisecond

// forgetAfter is the time after which a missing topic is no longer remembered.
const forgetAfter = 5 * time.Minute

// A View is the metadata of a cluster as far as they are known. It is not safe for concurrent use.
// The zero View knows nothing.
type View struct {
	cluster replication.Metadata // Topics are those that exist
	missing map[string]absence
	refused map[string]error // topics that may not be described, by name
}

// absence is a period in which responses did not have a topic.
type absence struct{ since, until time.Time }

// A Response is a broker's metadata of the topics that were requested, or of all topics.
type Response struct {
	// Metadata is without Version. In Topics each missing topic has an Err that matches
	// replication.ErrUnknownTopic. Other errors are of topics that may not be described.
	replication.Metadata
	AllTopics bool
}

// Merge adds a response that arrived at the given time. It reports whether anything has changed;
// then the version is larger than before. It keeps the slices of r.
func (v *View) Merge(r Response, now time.Time) (changed bool) {
	if v.cluster.Topics == nil {
		v.cluster.Topics, v.missing, v.refused = map[string]replication.TopicMetadata{}, map[string]absence{}, map[string]error{}
	}
	if !slices.Equal(v.cluster.Brokers, r.Brokers) || v.cluster.ClusterID != r.ClusterID || v.cluster.Controller != r.Controller {
		v.cluster.Brokers, v.cluster.ClusterID, v.cluster.Controller, changed = r.Brokers, r.ClusterID, r.Controller, true
	}
	for name, t := range r.Topics {
		delete(v.refused, name)
		if errors.Is(t.Err, replication.ErrUnknownTopic) {
			changed = v.absent(name, now) || changed
			continue
		}
		delete(v.missing, name)
		if t.Err != nil {
			v.refused[name] = t.Err
			continue
		}
		known, ok := v.cluster.Topics[name]
		merged := t
		if ok && known.ID == t.ID {
			merged = newer(known, t)
		}
		if !ok || !equal(known, merged) {
			v.cluster.Topics[name], changed = merged, true
		}
	}
	if r.AllTopics {
		for name := range v.cluster.Topics {
			if _, ok := r.Topics[name]; !ok {
				changed = v.absent(name, now) || changed
			}
		}
	}
	maps.DeleteFunc(v.missing, func(_ string, a absence) bool { return now.Sub(a.until) > forgetAfter })
	if changed {
		v.cluster.Version++
	}
	return changed
}

// absent notes that a response does not have a topic. It reports whether the topic now counts as
// missing and did not before.
func (v *View) absent(name string, now time.Time) (changed bool) {
	a, ok := v.missing[name]
	if !ok {
		a.since = now
	}
	a.until = now
	v.missing[name] = a
	if _, known := v.cluster.Topics[name]; known && now.Sub(a.since) >= Doubt {
		delete(v.cluster.Topics, name)
		return true
	}
	return false
}

// newer merges two states of one topic, by the leader epochs of its partitions.
func newer(known, t replication.TopicMetadata) replication.TopicMetadata {
	merged := t
	merged.Partitions = slices.Clone(t.Partitions)
	for i, p := range known.Partitions {
		if i >= len(merged.Partitions) { // the number of partitions never becomes smaller
			merged.Partitions = append(merged.Partitions, p)
		} else if p.LeaderEpoch > merged.Partitions[i].LeaderEpoch {
			merged.Partitions[i] = p
		}
	}
	return merged
}

func equal(a, b replication.TopicMetadata) bool {
	return a.ID == b.ID && a.Internal == b.Internal && slices.EqualFunc(a.Partitions, b.Partitions, func(p, q replication.PartitionMetadata) bool {
		return p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && slices.Equal(p.Replicas, q.Replicas) && slices.Equal(p.ISR, q.ISR)
	})
}

// Version returns the version of the metadata: 0 before the first response.
func (v *View) Version() int64 { return v.cluster.Version }

// Doubtful reports whether one of the topics is missing from responses, and may exist all the same
// because the time is short.
func (v *View) Doubtful(topics []string) bool {
	return slices.ContainsFunc(topics, func(name string) bool {
		a, ok := v.missing[name]
		return ok && a.until.Sub(a.since) < Doubt
	})
}

// Metadata returns the metadata of the given topics, of all known topics if there are none. The
// caller owns the result, except that the slices of partitions are shared and must not be written
// to. Missing topics have an *replication.UnknownTopicError.
func (v *View) Metadata(topics []string) replication.Metadata {
	m := v.cluster
	m.Topics = make(map[string]replication.TopicMetadata, len(topics))
	if len(topics) == 0 {
		maps.Copy(m.Topics, v.cluster.Topics)
	}
	for _, name := range topics {
		t, ok := v.cluster.Topics[name]
		if err := v.refused[name]; err != nil {
			t = replication.TopicMetadata{Name: name, Err: err}
		} else if !ok {
			t = replication.TopicMetadata{Name: name, Err: &replication.UnknownTopicError{Topic: name}}
		}
		m.Topics[name] = t
	}
	return m
}

// Topic returns the metadata of a topic.
func (v *View) Topic(name string) (replication.TopicMetadata, bool) {
	t, ok := v.cluster.Topics[name]
	return t, ok
}

// Name returns the name of the topic with an id.
func (v *View) Name(id [16]byte) (name string, ok bool) {
	for name, t := range v.cluster.Topics {
		if t.ID == id {
			return name, true
		}
	}
	return "", false
}

// Moved notes that a broker named another leader of a partition. It reports whether that is news.
func (v *View) Moved(topic string, partition, leader, epoch int32) bool {
	t, ok := v.cluster.Topics[topic]
	if !ok || int(partition) >= len(t.Partitions) || partition < 0 || epoch <= t.Partitions[partition].LeaderEpoch {
		return false
	}
	t.Partitions = slices.Clone(t.Partitions)
	t.Partitions[partition].Leader, t.Partitions[partition].LeaderEpoch = leader, epoch
	v.cluster.Topics[topic] = t
	v.cluster.Version++
	return true
}
