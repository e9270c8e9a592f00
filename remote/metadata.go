package remote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/remote/internal/view"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

const (
	// interest is the time for which the metadata of a topic are refreshed after its last use in a
	// session that producers share. Kafka: metadata.max.idle.ms.
	interest = 5 * time.Minute
	// soonest is the shortest time between two refreshes of the metadata.
	soonest = 50 * time.Millisecond
	// doubtInterval is the time between two requests for a topic that brokers may not have yet.
	doubtInterval = 100 * time.Millisecond
	// allTopics is the key of session.topics for questions about all topics.
	allTopics = ""
)

// Metadata returns the present metadata of the given topics, of all if none is given, from a
// broker. A topic that the broker does not have is requested again for half a second, since brokers
// get a new topic one after the other.
func (s *session) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	c := s.c
	s.noteRequested(topics)
	for {
		if err := s.fetchMetadata(ctx, metadataRequest(topics)); err != nil {
			return replication.Metadata{}, err
		}
		c.mu.Lock()
		doubtful, m := c.view.Doubtful(topics), c.view.Metadata(topics)
		c.mu.Unlock()
		if !doubtful {
			return m, nil
		}
		if err := s.pause(ctx, doubtInterval); err != nil {
			return replication.Metadata{}, err
		}
	}
}

// pause waits for d, or for the end of ctx or of the session, which is an error.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return replication.ErrClosed
	}
}

// WaitMetadata blocks until the version of the metadata is above after. Changes are noticed when a
// broker's response names another leader, and otherwise within Config.MetadataMaxAge.
func (s *session) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	c := s.c
	for {
		c.mu.Lock()
		version, changed := c.view.Version(), c.changed
		c.mu.Unlock()
		if s.ctx.Err() != nil {
			return 0, replication.ErrClosed
		}
		if version > after {
			return version, ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-s.ctx.Done():
		}
	}
}

func metadataRequest(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest() // nil Topics: all
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// fetchMetadata fetches metadata from a broker and merges the response.
func (s *session) fetchMetadata(ctx context.Context, req *kmsg.MetadataRequest) error {
	resp, err := readAny[*kmsg.MetadataResponse](ctx, s, "metadata", fromAdmin, func() kmsg.Request {
		one := *req
		return &one
	})
	if err == nil && resp.ErrorCode != 0 {
		err = codeError(fromAdmin, resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.view.Merge(response(resp, req.Topics == nil), time.Now()) {
		c.wakeLocked()
	}
	return nil
}

// response converts a response.
func response(resp *kmsg.MetadataResponse, all bool) view.Response {
	r := view.Response{AllTopics: all}
	r.Controller, r.Topics = resp.ControllerID, make(map[string]replication.TopicMetadata, len(resp.Topics))
	if resp.ClusterID != nil {
		r.ClusterID = *resp.ClusterID
	}
	for _, b := range resp.Brokers {
		broker := replication.Broker{ID: b.NodeID}
		if b.Rack != nil {
			broker.Rack = *b.Rack
		}
		r.Brokers = append(r.Brokers, broker)
	}
	slices.SortFunc(r.Brokers, func(a, b replication.Broker) int { return int(a.ID - b.ID) })
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		one := replication.TopicMetadata{Name: *t.Topic, ID: t.TopicID, Internal: t.IsInternal}
		switch t.ErrorCode {
		case 0:
			one.Partitions = partitions(t.Partitions)
		case kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code:
			one.Err = &replication.UnknownTopicError{Topic: one.Name}
		case kerr.InvalidTopicException.Code:
			if one.Err = topic.ValidateName(one.Name); one.Err == nil {
				one.Err = codeError(fromAdmin, t.ErrorCode, nil)
			}
		default:
			one.Err = fmt.Errorf("topic %q: %w", one.Name, codeError(fromAdmin, t.ErrorCode, nil))
		}
		r.Topics[one.Name] = one
	}
	return r
}

func partitions(ps []kmsg.MetadataResponseTopicPartition) []replication.PartitionMetadata {
	out := make([]replication.PartitionMetadata, len(ps))
	for i := range out {
		out[i] = replication.PartitionMetadata{Leader: -1, LeaderEpoch: -1}
	}
	for _, p := range ps {
		if p.Partition >= 0 && int(p.Partition) < len(out) {
			out[p.Partition] = replication.PartitionMetadata{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR}
		}
	}
	return out
}

// wakeLocked ends the waits for a change of the metadata.
func (c *Cluster) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (s *session) noteRequested(topics []string) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	now := time.Now()
	if len(topics) == 0 {
		s.topics[allTopics] = now
	}
	for _, name := range topics {
		s.topics[name] = now
	}
}

// topicsOfInterest returns the topics that sessions use; nil stands for all topics. A consumer uses
// a topic from its first request on: it repeats the request only after a change. ok is false if
// there are none.
func (c *Cluster) topicsOfInterest() (topics []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, used := time.Now(), map[string]time.Time{}
	for s := range c.sessions {
		if !s.own {
			maps.DeleteFunc(s.topics, func(_ string, at time.Time) bool { return now.Sub(at) > interest })
		}
		maps.Copy(used, s.topics)
	}
	if _, all := used[allTopics]; all {
		return nil, true
	}
	return slices.Sorted(maps.Keys(used)), len(used) > 0
}

// refreshSoon makes the metadata be refreshed soon, because a response shows that they have
// changed.
func (c *Cluster) refreshSoon() {
	select {
	case c.refresh <- struct{}{}:
	default:
	}
}

// refreshMetadata refreshes the metadata of the topics of interest, at intervals and when
// refreshSoon is called, until the cluster is closed.
func (c *Cluster) refreshMetadata() {
	quiet := time.Time{}
	for {
		again := c.cfg.MetadataMaxAge
		topics, ok := c.topicsOfInterest()
		if ok {
			ctx, cancel := context.WithTimeout(c.ctx, c.cfg.RequestTimeout)
			err := c.fetchMetadata(ctx, metadataRequest(topics))
			cancel()
			c.mu.Lock()
			if c.view.Doubtful(topics) {
				again = min(again, doubtInterval)
			}
			c.mu.Unlock()
			quiet = c.logSilence(err, quiet)
		}
		if c.session.pause(c.ctx, min(soonest, again)) != nil {
			return
		}
		t := time.NewTimer(max(again-soonest, 0))
		select {
		case <-c.refresh:
		case <-t.C:
		case <-c.ctx.Done():
		}
		t.Stop()
	}
}

// moved notes the leader that a response names for a partition (KIP-951), or has it looked up.
func (c *Cluster) moved(topic string, partition, leader, epoch int32) {
	c.mu.Lock()
	news := epoch >= 0 && c.view.Moved(topic, partition, leader, epoch)
	if news {
		c.wakeLocked()
	}
	c.mu.Unlock()
	if !news {
		c.refreshSoon()
	}
}

// topicInUse is topicOf for a topic whose metadata are refreshed from now on.
func (s *session) topicInUse(name string) (replication.TopicMetadata, bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.topics[name] = time.Now()
	return s.c.view.Topic(name)
}

// topicOf returns the last known metadata of a topic.
func (c *Cluster) topicOf(name string) (replication.TopicMetadata, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view.Topic(name)
}

// silenceLog is the time between two log lines about brokers that do not respond.
const silenceLog = 30 * time.Second

// logSilence logs that the metadata cannot be read, and that they can again. since is the time of
// the last such line; zero: the metadata could be read.
func (c *Cluster) logSilence(err error, since time.Time) time.Time {
	switch now := time.Now(); {
	case err == nil && !since.IsZero():
		c.cfg.Logger.Info("metadata can be read again")
		return time.Time{}
	case err != nil && c.ctx.Err() == nil && now.Sub(since) >= silenceLog:
		c.cfg.Logger.Warn("metadata cannot be read, trying again", "err", err)
		return now
	}
	return since
}
