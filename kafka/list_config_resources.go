package kafka

import (
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listConfigResources lists the resources that can have a configuration. Version 0 lists client
// metrics only, 1 the given types, or all. As in Kafka, it lists only groups with at least one
// configured key. Key 74, versions 0 and 1.
func (c *call) listConfigResources(req *kmsg.ListConfigResourcesRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	kinds := []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceClientMetrics, resourceGroup}
	wanted := req.ResourceTypes
	switch {
	case c.version == 0:
		wanted = []int8{resourceClientMetrics}
	case len(wanted) == 0:
		wanted = kinds
	}
	for _, k := range wanted {
		if !slices.Contains(kinds, k) {
			resp.ErrorCode = int16(UnsupportedVersion)
			return resp
		}
	}
	add := func(kind int8, name string) {
		resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: kind})
	}
	if slices.Contains(wanted, resourceTopic) {
		md, err := c.s.cluster.Metadata(c.ctx)
		if err != nil {
			return c.hangUp()
		}
		for name := range md.Topics {
			add(resourceTopic, name)
		}
	}
	if slices.Contains(wanted, resourceGroup) {
		for _, id := range c.s.cluster.ConfiguredGroups() {
			add(resourceGroup, id)
		}
	}
	if slices.Contains(wanted, resourceClientMetrics) {
		resources, _ := c.s.cluster.ClientMetricsProperties()
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			add(resourceClientMetrics, name)
		}
	}
	for _, kind := range []int8{resourceBroker, resourceBrokerLogger} {
		if slices.Contains(wanted, kind) {
			for _, b := range c.s.cluster.Brokers() {
				add(kind, strconv.Itoa(int(b)))
			}
		}
	}
	return resp
}
