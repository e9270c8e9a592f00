package replication

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// AllBrokers stands for every broker in AlterBrokerConfig and BrokerConfig.
const AllBrokers = image.AllBrokers

// BrokerConfig returns the dynamic configuration of one broker, or of all brokers (AllBrokers), by
// the broker's keys. The caller owns the map.
func (c *Cluster) BrokerConfig(broker int32) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.image.BrokerConfigs[image.BrokerResource(broker)])
}

// StaticDefaults returns the default topic settings that the cluster was opened with, by the
// topic's keys. The caller owns the map.
func (c *Cluster) StaticDefaults() map[string]string { return maps.Clone(c.defaults) }

// AlterBrokerConfig changes the defaults of all topics, and the rates at which replicas are copied,
// on one broker or on AllBrokers. It makes all of the changes or none. A setting of one broker
// precedes a setting of AllBrokers, and both precede the settings that the cluster was opened with.
// Keys are the broker's, such as log.retention.ms for retention.ms. Only keys that LookupBrokerKey
// finds can be changed while the cluster runs. When AlterBrokerConfig returns nil, the change is on
// stable storage and applies to open partitions and to copies in progress. Errors:
// *topic.ConfigError, ErrUnknownBroker, ErrClosed, and the context's error. Kafka: dynamic broker
// configuration.
//
// leader.replication.throttled.rate and follower.replication.throttled.rate limit the bytes a
// second that are copied from the broker and by it; they are 0 or more. They apply to the replicas
// that topics list in leader.replication.throttled.replicas and
// follower.replication.throttled.replicas. Both limits hold for each copy. A replica is never held
// back if it is in sync, or if acknowledgements wait for it because it is about to be in sync. Its
// bytes count all the same, so the rate must be above the rate of writing, or the other replicas do
// not catch up. A rate is an average over 11 seconds, and a batch is copied whole.
func (c *Cluster) AlterBrokerConfig(ctx context.Context, broker int32, changes ...ConfigChange) error {
	return c.alterBroker(broker, changes, func(d decision) error { return c.change(ctx, d) })
}

// AlterBrokerConfig is Cluster.AlterBrokerConfig.
func (d DryRun) AlterBrokerConfig(ctx context.Context, broker int32, changes ...ConfigChange) error {
	return d.c.alterBroker(broker, changes, func(decide decision) error { return d.decide(ctx, decide) })
}

func (c *Cluster) alterBroker(broker int32, changes []ConfigChange, change func(decision) error) error {
	err := change(func(img *image.Image) ([]metarecord.Record, error) {
		return img.AlterBroker(broker, c.rules, func(before map[string]string) (map[string]string, error) {
			return c.changedBroker(img, broker, before, changes)
		})
	})
	if err != nil {
		return fmt.Errorf("alter configuration of broker %q: %w", image.BrokerResource(broker), err)
	}
	return nil
}

// changedBroker returns the configuration of a broker after changes, if every broker has valid
// defaults then.
func (c *Cluster) changedBroker(img *image.Image, broker int32, before map[string]string, changes []ConfigChange) (map[string]string, error) {
	config, set := topicKeys(before), onlyRates(before)
	for _, ch := range changes {
		if isRate(ch.Key) {
			if err := ch.applyRate(set); err != nil {
				return nil, err
			}
			continue
		}
		k, ok := topic.LookupBrokerKey(ch.Key)
		if !ok && ch.Op == UnsetConfig && ch.Key == logDirsRate {
			continue
		}
		if !ok {
			return nil, &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: "it cannot be changed while the cluster runs"}
		}
		if reason := minInSyncOfBrokers(img, broker, k.Name, ch.Op); reason != "" {
			return nil, &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason}
		}
		named := ch
		named.Key = k.Name
		if err := named.apply(config, c.defaults); err != nil {
			return nil, err
		}
	}
	after := brokerKeys(config)
	maps.Copy(after, set)
	all := maps.Clone(img.BrokerConfigs)
	all[image.BrokerResource(broker)] = after
	for _, id := range append(slices.Collect(maps.Keys(img.Members)), AllBrokers) {
		if _, err := topic.Parse(nil, c.defaultsWith(all, id)); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// logDirsRate is the rate of moves between directories of a broker, which has one here. It cannot
// be set; kafka-reassign-partitions --verify unsets it whether it was set or not: that is no error.
const logDirsRate = "replica.alter.log.dirs.io.max.bytes.per.second"

// minInSyncOfBrokers returns why the brokers' default of min.insync.replicas cannot be altered, ""
// if it can. By KIP-966 it must be the same on all brokers, and stay once it is set. Kafka:
// ConfigurationControlManager.
func minInSyncOfBrokers(img *image.Image, broker int32, key string, op ConfigOp) string {
	switch {
	case key != "min.insync.replicas" || !img.EligibleReplicas():
		return ""
	case broker != AllBrokers:
		return "it cannot be altered on one broker while eligible leader replicas are enabled"
	case op == UnsetConfig:
		return "it cannot be removed while eligible leader replicas are enabled"
	}
	return ""
}

// defaultsOf returns the default settings of topics, by the topic's keys, as the controller sees
// them. The map must not be written to.
func (c *Cluster) defaultsOf(img *image.Image) map[string]string {
	return c.defaultsWith(img.BrokerConfigs, c.Controller())
}

func (c *Cluster) defaultsWith(brokers map[string]map[string]string, broker int32) map[string]string {
	if len(brokers) == 0 {
		return c.defaults
	}
	merged := maps.Clone(c.defaults)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, topicKeys(brokers[""]))
	maps.Copy(merged, topicKeys(brokers[image.BrokerResource(broker)]))
	return merged
}

// currentDefaults is defaultsOf of the present image.
func (c *Cluster) currentDefaults() map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.defaultsOf(c.image)
}

// settings are the effective settings of a topic as the controller sees them.
func (c *Cluster) settings(t *image.Topic) topic.Settings {
	return nodeMetadata{c, c.Controller()}.settings(t)
}

// topicKeys translates the broker's names of settings into the topic's; it leaves out settings of a
// later version.
func topicKeys(config map[string]string) map[string]string {
	named := make(map[string]string, len(config))
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if k, ok := topic.LookupBrokerKey(name); ok {
			named[k.Name] = config[name]
		}
	}
	return named
}

func brokerKeys(config map[string]string) map[string]string {
	named := make(map[string]string, len(config))
	for name, v := range config {
		k, _ := topic.LookupKey(name)
		named[k.Synonyms[0]] = v
	}
	return named
}

// ClusterConfig returns the Config that the cluster was opened with, with defaults filled in.
func (c *Cluster) ClusterConfig() Config {
	cfg := c.cfg
	cfg.Defaults.Properties, cfg.Properties = maps.Clone(cfg.Defaults.Properties), maps.Clone(cfg.Properties)
	return cfg
}
