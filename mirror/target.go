package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	known, err := f.topicsAtTarget(ctx, name)
	t, exists = known[name]
	return t, exists, err
}

// topicsAtTarget returns the metadata of those topics that the target has. One request for all
// matters: a client may look twice for topics that it does not find.
func (f *Forward) topicsAtTarget(ctx context.Context, names ...string) (map[string]replication.TopicMetadata, error) {
	md, err := f.target.Metadata(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	known := make(map[string]replication.TopicMetadata, len(names))
	for _, name := range names {
		switch t := md.Topics[name]; {
		case t.Err == nil:
			known[name] = t
		case !isUnknown(t.Err):
			return nil, fmt.Errorf("target: topic %s: %w", name, t.Err)
		}
	}
	return known, nil
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

// ensureTargets checks the target topics. It creates missing topics, all at the same time. It
// returns ErrTopicReplaced for a missing topic that the mirror has written to before. positions has
// the stored positions by flow, nil if there is none.
func (f *Forward) ensureTargets(ctx context.Context, positions []*positionValue) error {
	names := make([]string, len(f.flows))
	for i, fl := range f.flows {
		names[i] = fl.target
	}
	known, err := f.topicsAtTarget(ctx, names...)
	if err != nil {
		return err
	}
	var missing []*flow
	var created []string
	for i, fl := range f.flows {
		if _, exists := known[fl.target]; exists {
			continue
		}
		if positions[i] != nil {
			return f.stop(fl.target, -1, -1, fmt.Errorf("%w at the target", ErrTopicReplaced))
		}
		missing, created = append(missing, fl), append(created, fl.target)
	}
	if len(missing) > 0 {
		f.cfg.Logger.Info("creating topics at the target", "mirror", f.cfg.ID, "topics", created)
		if err := together(missing, func(fl *flow) error { return f.createTarget(ctx, fl) }); err != nil {
			return err
		}
		if known, err = f.topicsAtTarget(ctx, names...); err != nil {
			return err
		}
	}
	return together(f.flows, func(fl *flow) error {
		t, exists := known[fl.target]
		if !exists {
			return fmt.Errorf("target: topic %s is not there yet", fl.target)
		}
		return f.checkTarget(ctx, fl, t)
	})
}

// createTarget creates a target topic with the settings of the source topic.
func (f *Forward) createTarget(ctx context.Context, fl *flow) error {
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
	return nil
}

// checkTarget checks a target topic that exists.
func (f *Forward) checkTarget(ctx context.Context, fl *flow, t replication.TopicMetadata) error {
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

// atOnce bounds the calls of together that run at the same time.
const atOnce = 16

// together calls fn for all flows. It returns an error that a repetition cannot resolve, or else
// the first one.
func together(flows []*flow, fn func(*flow) error) (err error) {
	errs := make([]error, len(flows))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, fl := range flows {
		turns <- struct{}{}
		wg.Go(func() {
			errs[i] = fn(fl)
			<-turns
		})
	}
	wg.Wait()
	for _, one := range errs {
		if err == nil || one != nil && isFinal(one) && !isFinal(err) {
			err = one
		}
	}
	return err
}
