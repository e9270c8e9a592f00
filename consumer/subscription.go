package consumer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// subscription holds the topics that a consumer is to read. Guarded by Consumer.mu.
type subscription struct {
	topics        []string // sorted; see subscribed
	pattern       *regexp.Regexp
	topicsVersion int64 // counts changes of the two
	// topics when they were subscribed to; partitions that appear later are new
	first map[string]topicView
}

// wholeName returns a pattern that matches whole names only.
func wholeName(pattern *regexp.Regexp) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + pattern.String() + ")$")
}

// subscribed returns the subscribed topics, sorted: with a TopicPattern those that exist now.
func (c *Consumer) subscribed(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	topics, pattern := c.topics, c.pattern
	c.mu.Unlock()
	if pattern == nil {
		return topics, nil
	}
	md, err := c.logs.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	topics = nil
	for name, t := range md.Topics {
		if t.Internal || !pattern.MatchString(name) {
			continue
		}
		if err := undecided(name, t); err != nil {
			return nil, err
		}
		if t.Err == nil {
			topics = append(topics, name)
		}
	}
	slices.Sort(topics)
	return topics, nil
}

// Subscribe replaces the topics of a consumer, and its TopicPattern. Without topics
// the consumer reads nothing. Partitions of topics that stay keep their positions, others are given
// up. It does not wait for the change. It returns ErrUnknownTopic unless AllowUnknownTopics is set,
// ErrClosed, or a *ConfigError for a consumer with Assign.
func (c *Consumer) Subscribe(ctx context.Context, topics ...string) error {
	if len(c.cfg.Assign) > 0 {
		return &ConfigError{"Assign", "a consumer of given partitions has no topics to change"}
	}
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	views, err := c.existing(ctx, topics)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	for name, v := range views {
		if _, known := c.first[name]; !known {
			c.first[name] = v
		}
	}
	c.topics, c.pattern = topics, nil
	c.topicsVersion++
	c.member.enforce = true
	c.mu.Unlock()
	if c.groups == nil {
		return c.reviewFree(ctx)
	}
	c.kickMember()
	return nil
}

// existing returns the present metadata of topics. It returns an error for a topic that does not
// exist, unless that is permitted.
func (c *Consumer) existing(ctx context.Context, topics []string) (map[string]topicView, error) {
	views := make(map[string]topicView, len(topics))
	if len(topics) == 0 {
		return views, nil
	}
	md, err := c.logs.Metadata(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("consumer: topics: %w", err)
	}
	for _, name := range topics {
		t, ok := md.Topics[name]
		switch {
		case ok && t.Err == nil:
			views[name] = topicView{t.ID, int32(len(t.Partitions))}
		case ok && errors.Is(t.Err, ErrUnknownTopic) && c.cfg.AllowUnknownTopics && undecided(name, t) == nil:
		case ok:
			return nil, fmt.Errorf("consumer: subscribe: %w", t.Err)
		}
	}
	return views, nil
}
