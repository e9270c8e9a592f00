package replication

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/fieldtest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Callers may write to all values that a cluster returns, because it keeps no reference to them.
// The exception is Metadata, which is documented as shared.
func TestReturnedDescriptionsAreTheCallersOwn(t *testing.T) {
	c := openBrokers(t, vfs.Mem(), 3)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 3, ReplicationFactor: 3, Log: log.Config{RetentionAge: 5 * time.Second, SegmentAge: 6 * time.Second}}))
	produce(t, c, record.TopicPartition{Topic: "a"}, "x")
	for name, describe := range map[string]func() (any, error){
		"Topic":            func() (any, error) { return c.Topic(t.Context(), "a") },
		"Topics":           func() (any, error) { return c.Topics(t.Context()) },
		"Status":           func() (any, error) { return c.Status("a", 1), nil },
		"Members":          func() (any, error) { return c.Members(), nil },
		"Brokers":          func() (any, error) { return c.Brokers(), nil },
		"Registered":       func() (any, error) { return c.Registered(), nil },
		"BrokerConfig":     func() (any, error) { return c.BrokerConfig(1), nil },
		"StaticDefaults":   func() (any, error) { return c.StaticDefaults(), nil },
		"ClusterConfig":    func() (any, error) { return c.ClusterConfig().Defaults.Properties, nil },
		"ConfiguredGroups": func() (any, error) { return c.ConfiguredGroups(), nil },
		"ScramUsers":       func() (any, error) { return c.ScramUsers(), nil },
		"Reassignments":    func() (any, error) { return c.PartitionReassignments() },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := describe()
			require.NoError(t, err)
			before := fmt.Sprintf("%+v", got)
			fieldtest.Scramble(got)
			again, err := describe()
			require.NoError(t, err)
			require.Equal(t, before, fmt.Sprintf("%+v", again))
		})
	}
}
