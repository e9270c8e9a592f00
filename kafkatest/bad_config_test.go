package kafkatest

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// An invalid configuration ends the test before a broker starts.
func TestConfigurationsThatMakeNoSenseEndTheTest(t *testing.T) {
	ended := func(t *testing.T, cfg Config) (why string) {
		f := &fakeT{}
		why = f.run(func() { New(f, cfg) })
		require.NotEmpty(t, why)
		return why
	}
	numbers := 0
	negative := func(of reflect.Type, number func(cfg *Config, i int) reflect.Value) {
		for i := range of.NumField() {
			cfg := Config{Pipe: true}
			if field := number(&cfg, i); field.CanInt() {
				numbers++
				field.SetInt(-5)
				t.Run(of.Field(i).Name, func(t *testing.T) { ended(t, cfg) })
			}
		}
	}
	negative(reflect.TypeFor[Config](), func(cfg *Config, i int) reflect.Value { return reflect.ValueOf(cfg).Elem().Field(i) })
	negative(reflect.TypeFor[group.Config](), func(cfg *Config, i int) reflect.Value { return reflect.ValueOf(&cfg.Group).Elem().Field(i) })
	negative(reflect.TypeFor[transaction.TopicConfig](), func(cfg *Config, i int) reflect.Value {
		return reflect.ValueOf(&cfg.Transactions.Topic).Elem().Field(i)
	})
	require.Greater(t, numbers, 10)
	for name, tc := range map[string]struct {
		cfg  Config
		says string
	}{
		"more replicas than brokers":     {Config{Brokers: 2, Replicas: 3}, "3 replicas"},
		"more of offsets than brokers":   {Config{Brokers: 2, Group: group.Config{OffsetsReplicas: 3}}, "OffsetsReplicas"},
		"racks for others":               {Config{Brokers: 2, Racks: []string{"a"}}, "1 racks for 2 brokers"},
		"a topic of no partitions":       {Config{Topics: map[string]int{"orders": -1}}, "orders"},
		"a topic of too many replicas":   {Config{TopicConfigs: map[string]topic.Config{"orders": {ReplicationFactor: 2}}}, "orders"},
		"a topic that is called orders!": {Config{Topics: map[string]int{"orders!": 1}}, "orders!"},
		"an unknown level":               {Config{Transactions: transaction.Config{Version: 3}}, "Version"},
		"metrics for nobody":             {Config{Telemetry: kafka.Telemetry{Metrics: []string{"org."}}}, "without Receive"},
		"an unknown selector":            {Config{ReplicaSelector: 77}, "ReplicaSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Pipe = true
			require.Contains(t, ended(t, tc.cfg), tc.says)
		})
	}
}
