package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// clientMetricsKeys are the keys of a client-metrics resource. Kafka: ClientMetricsConfigs.
var clientMetricsKeys = []setting{
	{name: clientmetrics.KeyInterval, kind: topic.TypeInt, def: "300000", doc: "How often clients push, in ms; above 300000 counts as that."},
	{name: clientmetrics.KeyMatch, kind: topic.TypeList, doc: "Which clients: attributes and RE2 expressions, as in client_id=web.*, all of which must match; none: every client."},
	{name: clientmetrics.KeyMetrics, kind: topic.TypeList, doc: "Prefixes of the names of the metrics that clients push, or * for all of them."},
}

// clientMetricsEntries returns the settings of a client-metrics resource, whether or not it
// exists.
func (c *call) clientMetricsEntries(name string) []configEntry {
	resources, _ := c.s.cluster.ClientMetricsProperties()
	entries := make([]configEntry, len(clientMetricsKeys))
	for i, k := range clientMetricsKeys {
		e := configEntry{configLayer: configLayer{k.name, k.def, sourceDefault}, kind: k.kind, doc: k.doc}
		if v, ok := resources[name][k.name]; ok {
			e.configLayer = configLayer{k.name, clientmetrics.Normal(k.name, v), sourceClientMetrics}
			e.layers = []configLayer{e.configLayer}
		}
		entries[i] = e
	}
	return entries
}

// alterClientMetrics changes the settings of a client-metrics resource. With replace, keys that
// are not in changes are unset. A resource without settings does not exist.
func (c *call) alterClientMetrics(name string, changes []replication.ConfigChange, replace, validateOnly bool) error {
	for _, ch := range changes {
		// As in Kafka, although two of the keys are lists.
		if word, list := listOperations[ch.Op]; list {
			return refuse(InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", word, ch.Key))
		}
	}
	var alter interface {
		AlterClientMetricsProperties(context.Context, string, func(map[string]string) (map[string]string, error)) error
	} = c.s.cluster.Cluster
	if validateOnly {
		alter = c.s.cluster.DryRun()
	}
	err := alter.AlterClientMetricsProperties(c.ctx, name, func(before map[string]string) (map[string]string, error) {
		after := map[string]string{}
		if !replace {
			maps.Copy(after, before)
		}
		for _, ch := range changes {
			if ch.Op == replication.UnsetConfig {
				delete(after, ch.Key)
			} else {
				after[ch.Key] = ch.Value
			}
		}
		return after, clientmetrics.Validate(name, after)
	})
	if refused := (*clientmetrics.RefusedError)(nil); errors.As(err, &refused) {
		code := InvalidRequest
		if refused.Config {
			code = InvalidConfig
		}
		return refuse(code, refused.Text)
	}
	return err
}
