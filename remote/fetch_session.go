package remote

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// fetchSessionFrom is the number of partitions from which a fetch request uses a session. A smaller
// request is not worth one of the broker's sessions, of which Kafka has 1,000 for all clients.
var fetchSessionFrom = 16

// A fetchSession is the state that a broker and this client keep from one fetch request to the next
// (KIP-227): a request has only partitions that differ from the previous one, and a response only
// those with news. It is used by the request that has no response, otherwise guarded by puller.mu.
type fetchSession struct {
	id, epoch int32 // as of the next request; id 0: no session
	names     bool  // topics are named, since one has no id
	parts     map[record.TopicPartition]*sessionPart
}

// A sessionPart is one partition of a session.
type sessionPart struct {
	sent                         partition.FetchPartition
	highWatermark, stable, start int64 // as of the last response; -1: not known
}

// A fetchKind is how a request uses sessions.
type fetchKind int8

const (
	sessionless fetchKind = iota
	full                  // has all partitions, and opens a session
	incremental           // has the changes since the last one
)

// add puts partitions into a request: all, or those that differ from the session's. names is true
// if a topic has no id.
func (fs *fetchSession) add(req *kmsg.FetchRequest, want []*partition.FetchPartition, names bool) fetchKind {
	kind := incremental
	switch {
	case fs.id == 0 && len(want) < fetchSessionFrom:
		kind = sessionless
	case fs.id == 0 || fs.names != names: // the version of the request belongs to a session
		kind = full
	}
	topics := index[sessionTopic]{}
	put := func(w *partition.FetchPartition) {
		i, first := topics.of(sessionTopic{w.Topic, w.TopicID})
		if first {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.Topic, w.TopicID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = w.Partition, w.Offset, wireBytes(w.MaxBytes), w.CurrentLeaderEpoch, w.LastFetchedEpoch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	if kind != incremental {
		fs.parts = nil
	}
	if kind == sessionless {
		for _, w := range want {
			put(w)
		}
		return kind
	}
	req.SessionID, req.SessionEpoch = fs.id, 0
	if kind == incremental {
		req.SessionEpoch = fs.epoch
		fs.removeFrom(req, want)
	} else {
		fs.names, fs.parts = names, make(map[record.TopicPartition]*sessionPart, len(want))
	}
	for _, w := range want {
		if p := fs.parts[w.TopicPartition]; p == nil || p.sent != *w {
			put(w)
			fs.parts[w.TopicPartition] = &sessionPart{sent: *w, highWatermark: -1, stable: -1, start: -1}
		}
	}
	return kind
}

// removeFrom removes the partitions of the session that are not wanted, or whose topic is another
// one now.
func (fs *fetchSession) removeFrom(req *kmsg.FetchRequest, want []*partition.FetchPartition) {
	wanted := make(map[record.TopicPartition][16]byte, len(want))
	for _, w := range want {
		wanted[w.TopicPartition] = w.TopicID
	}
	topics := index[sessionTopic]{}
	for tp, p := range fs.parts {
		if id, ok := wanted[tp]; ok && id == p.sent.TopicID {
			continue
		}
		i, first := topics.of(sessionTopic{tp.Topic, p.sent.TopicID})
		if first {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = tp.Topic, p.sent.TopicID
			req.ForgottenTopics = append(req.ForgottenTopics, t)
		}
		req.ForgottenTopics[i].Partitions = append(req.ForgottenTopics[i].Partitions, tp.Partition)
		delete(fs.parts, tp)
	}
}

type sessionTopic struct {
	name string
	id   [16]byte
}

// received notes a response without an error.
func (fs *fetchSession) received(kind fetchKind, id int32) {
	switch {
	case id == 0: // sessionless, or the broker has no room for another session
		*fs = fetchSession{}
	case kind == incremental && fs.epoch < math.MaxInt32:
		fs.epoch++
	default:
		fs.epoch = 1
	}
	fs.id = id
}

// note keeps the offsets of a response for one partition: later responses leave the partition out
// while they stay the same.
func (fs *fetchSession) note(tp record.TopicPartition, p *kmsg.FetchResponseTopicPartition) {
	if known := fs.parts[tp]; known != nil {
		known.highWatermark, known.stable, known.start = p.HighWatermark, p.LastStableOffset, p.LogStartOffset
	}
}

// lost ends the session: the broker may have another state of it, or none.
func (fs *fetchSession) lost() { *fs = fetchSession{} }
