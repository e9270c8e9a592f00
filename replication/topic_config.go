package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A ConfigOp is the operation of a ConfigChange. Kafka: IncrementalAlterConfigs.
type ConfigOp uint8

const (
	SetConfig      ConfigOp = iota // sets the key to Value
	UnsetConfig                    // returns the key to its default; Value is ignored
	AppendConfig                   // adds those elements of Value that the list lacks
	SubtractConfig                 // removes the elements of Value from a list
)

// A ConfigChange changes one key of a topic's configuration.
type ConfigChange struct {
	Key   string
	Op    ConfigOp
	Value string
}

// AlterTopic sets configuration keys of a topic; keys that are not in props keep their values. It
// is AlterTopicConfig with SetConfig for all of them.
func (c *Cluster) AlterTopic(ctx context.Context, name string, props map[string]string) error {
	changes := make([]ConfigChange, 0, len(props))
	for _, k := range slices.Sorted(maps.Keys(props)) {
		changes = append(changes, ConfigChange{Key: k, Value: props[k]})
	}
	return c.AlterTopicConfig(ctx, name, changes...)
}

// AlterTopicConfig changes a topic's configuration, all keys or none. When it returns nil, the
// change is on stable storage and applies to open partitions. Errors: ErrUnknownTopic,
// *topic.ConfigError, ErrClosed, and the context's error.
func (c *Cluster) AlterTopicConfig(ctx context.Context, name string, changes ...ConfigChange) error {
	return c.alterTopic(ctx, name, applyChanges(changes))
}

// ReplaceTopicConfig replaces a topic's configuration with props: keys that are not in props return
// to their defaults. Errors: those of AlterTopicConfig. Kafka: AlterConfigs.
func (c *Cluster) ReplaceTopicConfig(ctx context.Context, name string, props map[string]string) error {
	return c.alterTopic(ctx, name, replaceConfig(props))
}

// An edit changes a configuration in place; it knows the defaults below it.
type edit func(config, defaults map[string]string) error

func applyChanges(changes []ConfigChange) edit {
	return func(config, defaults map[string]string) error {
		for _, ch := range changes {
			if err := ch.apply(config, defaults); err != nil {
				return err
			}
		}
		return nil
	}
}

func replaceConfig(props map[string]string) edit {
	return func(config, _ map[string]string) error {
		clear(config)
		maps.Copy(config, props)
		return nil
	}
}

func (c *Cluster) alterTopic(ctx context.Context, name string, e edit) error {
	a := &topicAlteration{c: c, name: name, edit: e, factor: 1}
	if err := c.change(ctx, a.decide); err != nil {
		return fmt.Errorf("alter topic %q: %w", name, err)
	}
	a.settings.Warn(c.logger, name, a.factor)
	return nil
}

// topicAlteration is a change of a topic's configuration and, when decided, its result.
type topicAlteration struct {
	c        *Cluster
	name     string
	edit     edit
	factor   int
	settings topic.Settings
}

func (a *topicAlteration) decide(img *image.Image) ([]metarecord.Record, error) {
	defaults := a.c.defaultsOf(img)
	return img.AlterTopic(a.name, a.c.rules, func(config map[string]string, factor int) (err error) {
		a.factor = factor
		if err = a.edit(config, defaults); err == nil {
			a.settings, err = topic.Parse(config, defaults)
		}
		return err
	})
}

// apply changes config in place.
func (ch ConfigChange) apply(config, defaults map[string]string) error {
	k, ok := topic.LookupKey(ch.Key)
	bad := func(reason string) error { return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason} }
	switch {
	case !ok:
		return bad("there is no such topic configuration")
	case ch.Op == SetConfig:
		config[ch.Key] = ch.Value
		return nil
	case ch.Op == UnsetConfig:
		delete(config, ch.Key)
		return nil
	case k.Type != topic.TypeList:
		return bad("it is not a list")
	case ch.Op != AppendConfig && ch.Op != SubtractConfig:
		return bad(fmt.Sprintf("unknown operation %d", ch.Op))
	}
	current, ok := config[ch.Key]
	if !ok {
		current, ok = defaults[ch.Key]
	}
	if !ok {
		current = k.Default
	}
	config[ch.Key] = ch.changeList(current)
	return nil
}

// changeList returns a list with the elements of Value added or taken out.
func (ch ConfigChange) changeList(current string) string {
	list := topic.SplitList(current)
	for _, item := range topic.SplitList(ch.Value) {
		at := slices.Index(list, item)
		switch {
		case ch.Op == AppendConfig && at < 0:
			list = append(list, item)
		case ch.Op == SubtractConfig && at >= 0:
			list = slices.Delete(list, at, at+1)
		}
	}
	return strings.Join(list, ",")
}
