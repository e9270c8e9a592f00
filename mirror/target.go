package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// notCopied are settings of a source topic that a new target topic does not get: they belong to a
// cluster, not to the records. With message.timestamp.type the target would replace timestamps.
var notCopied = []string{
	"min.insync.replicas", "message.timestamp.type", "unclean.leader.election.enable",
	"leader.replication.throttled.replicas", "follower.replication.throttled.replicas",
}

// isUnknown reports whether a topic certainly does not exist.
func isUnknown(err error) bool {
	again, _ := retriable.Of(err)
	return errors.Is(err, replication.ErrUnknownTopic) && !again
}

// topicAtTarget returns the metadata of a topic of the target; exists is false if there is none.
func (f *Forward) topicAtTarget(ctx context.Context, name string) (t replication.TopicMetadata, exists bool, err error) {
	md, err := f.target.Metadata(ctx, name)
	if err != nil {
		return t, false, fmt.Errorf("target: %w", err)
	}
	switch t = md.Topics[name]; {
	case t.Err == nil:
		return t, true, nil
	case isUnknown(t.Err):
		return t, false, nil
	}
	return t, false, fmt.Errorf("target: topic %s: %w", name, t.Err)
}

// ensurePositions creates the topic of positions, or checks it.
func (f *Forward) ensurePositions(ctx context.Context) error {
	name := f.cfg.PositionTopic
	_, exists, err := f.topicAtTarget(ctx, name)
	if err != nil {
		return err
	}
	if !exists {
		// Small segments are compacted soon. Reading the last position takes one fetch.
		err := f.target.EnsureTopic(ctx, name, topic.Config{Partitions: 1, ReplicationFactor: f.cfg.ReplicationFactor, Properties: map[string]string{
			"cleanup.policy": "compact", "segment.bytes": "8388608",
		}})
		if err != nil && !errors.Is(err, replication.ErrTopicDiffers) {
			return fmt.Errorf("target: create the topic of positions: %w", err)
		}
	}
	info, err := f.target.Topic(ctx, name)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if s := info.Settings; !s.Compacted() || s.Deleted() {
		policy, _ := s.Value("cleanup.policy")
		return fmt.Errorf("mirror %q: %w", f.cfg.ID, configError("cleanup.policy", policy,
			"topic %s holds positions: it must be compact only, or positions expire (it also looks like this if its settings may not be read)", name))
	}
	return nil
}

// ensureTarget checks a target topic, and creates it if it does not exist and the mirror has not
// written to it before.
func (f *Forward) ensureTarget(ctx context.Context, fl *flow, written bool) error {
	t, exists, err := f.topicAtTarget(ctx, fl.target)
	switch {
	case err != nil:
		return err
	case !exists && written:
		return f.stop(fl.target, -1, -1, fmt.Errorf("%w at the target", ErrTopicReplaced))
	case !exists:
		info, err := f.source.Topic(ctx, fl.source)
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		props := info.Settings.Explicit()
		for _, key := range notCopied {
			delete(props, key)
		}
		err = f.target.EnsureTopic(ctx, fl.target, topic.Config{Partitions: len(fl.reached), ReplicationFactor: f.cfg.ReplicationFactor, Properties: props})
		if err != nil && !errors.Is(err, replication.ErrTopicDiffers) {
			return fmt.Errorf("target: create topic %s: %w", fl.target, err)
		}
		if t, exists, err = f.topicAtTarget(ctx, fl.target); err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("target: topic %s is not there yet", fl.target)
		}
	}
	if len(t.Partitions) != len(fl.reached) {
		return f.partitionsDiffer(fl, len(fl.reached), len(t.Partitions))
	}
	info, err := f.target.Topic(ctx, fl.target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if kind, _ := info.Settings.Value("message.timestamp.type"); kind == "LogAppendTime" {
		return fmt.Errorf("mirror %q: %w", f.cfg.ID, configError("message.timestamp.type", kind,
			"topic %s of the target would replace the timestamps of records: set it to CreateTime", fl.target))
	}
	f.mu.Lock()
	fl.targetID = t.ID
	f.mu.Unlock()
	return nil
}
