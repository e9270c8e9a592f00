package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// Types of resources that have a configuration. Kafka: ConfigResource.Type.
const (
	resourceTopic         = 2
	resourceBroker        = 4
	resourceBrokerLogger  = 8
	resourceClientMetrics = 16
	resourceGroup         = 32
)

// configTypes are the numbers of value types, from version 3 on.
// Kafka: DescribeConfigsResponse.ConfigType.
var configTypes = map[topic.ValueType]kmsg.ConfigType{
	topic.TypeBoolean: 1, topic.TypeString: 2, topic.TypeInt: 3, typeShort: 4, topic.TypeLong: 5, topic.TypeDouble: 6, topic.TypeList: 7,
}

// typeShort is a type that only broker settings have, not settings of topics.
const typeShort topic.ValueType = "SHORT"

// describeConfigs returns configurations with the source of each value; from version 1 on with
// synonyms, from 3 on with types and documentation. Key 32, versions 1 to 4.
//
// A broker logger has no entries. A group has those of Kafka's keys that have an effect here.
func (c *call) describeConfigs(req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	// Kafka rejects the whole request if it has an unknown type of resource.
	unknown := slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool {
		return !slices.Contains(describable, int8(r.ResourceType))
	})
	seen := map[configResource]bool{}
	for _, r := range each(c, req.Resources) {
		if id := (configResource{int8(r.ResourceType), r.ResourceName}); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		entries, err := []configEntry(nil), refuse(InvalidRequest, textInvalidRequest)
		if !unknown {
			entries, err = c.configEntries(int8(r.ResourceType), r.ResourceName)
		}
		if e := c.room(c.describedSize(entries, &r, req)); e != nil {
			entries, err = nil, e
		}
		rr := kmsg.NewDescribeConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		if rr.ErrorCode, rr.ErrorMessage = c.errorCode(err), errorMessage(err); err == nil || errors.Is(err, replication.ErrUnknownTopic) {
			rr.ErrorMessage = kmsg.StringPtr("") // as in Kafka, which does not set it
		}
		for _, e := range entries {
			if len(r.ConfigNames) == 0 || slices.Contains(r.ConfigNames, e.name) {
				rr.Configs = append(rr.Configs, c.describedConfig(e, req))
			}
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp
}

// describedSize returns the approximate size of the response for a resource, in bytes.
func (c *call) describedSize(entries []configEntry, r *kmsg.DescribeConfigsRequestResource, req *kmsg.DescribeConfigsRequest) int {
	size := len(r.ResourceName) + 16
	for i := range entries {
		e := &entries[i]
		if len(r.ConfigNames) > 0 && !slices.Contains(r.ConfigNames, e.name) {
			continue
		}
		size += len(e.name) + len(e.value) + 16
		if req.IncludeDocumentation {
			size += len(e.doc)
		}
		if req.IncludeSynonyms {
			for _, l := range e.layers {
				size += len(l.name) + len(l.value) + 8
			}
		}
	}
	return size
}

// describable are the types of resources that have a configuration.
var describable = []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceGroup, resourceClientMetrics}

// configResource is the type and the name of a resource.
type configResource struct {
	kind int8
	name string
}

func (c *call) describedConfig(e configEntry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	rc := kmsg.NewDescribeConfigsResponseResourceConfig()
	rc.Name, rc.ReadOnly, rc.Source = e.name, e.readOnly, kmsg.ConfigSource(e.source)
	if !e.null {
		rc.Value = &e.value
	}
	rc.ConfigType = configTypes[e.kind]
	if req.IncludeDocumentation {
		rc.Documentation = &e.doc
	}
	if req.IncludeSynonyms {
		for _, l := range e.layers {
			rc.ConfigSynonyms = append(rc.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				Name: l.name, Value: &l.value, Source: kmsg.ConfigSource(l.source),
			})
		}
	}
	return rc
}

// configEntries returns the configuration of a resource.
func (c *call) configEntries(kind int8, name string) ([]configEntry, error) {
	switch kind {
	case resourceTopic:
		if err := topic.ValidateName(name); err != nil {
			return nil, nameSays(err, name)
		}
		settings, err := c.view.TopicSettings(name)
		if err != nil {
			return nil, err
		}
		return c.topicEntries(settings, c.broker), nil
	case resourceBroker:
		if name == "" {
			return c.allBrokersEntries(), nil
		}
		if err := c.own(name, "Broker", "Unexpected broker id, expected %d or empty string, but received %s"); err != nil {
			return nil, err
		}
		return c.brokerEntries(), nil
	case resourceBrokerLogger:
		if name == "" {
			return nil, refuse(InvalidRequest, "Broker id must not be empty")
		}
		return nil, c.own(name, "Broker", "Unexpected broker id, expected %d but received %s")
	case resourceGroup:
		if name == "" {
			return nil, refuse(InvalidRequest, "Group name must not be empty")
		}
		return c.groupEntries(name), nil
	case resourceClientMetrics:
		if name == "" {
			return nil, refuse(InvalidRequest, "Client metrics subscription name must not be empty")
		}
		return c.clientMetricsEntries(name), nil
	}
	return nil, nil
}

// own rejects a name that is not the id of the broker that serves the call. The messages name the
// resource by what; other is the message for another id.
func (c *call) own(name, what, other string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return refuse(InvalidRequest, fmt.Sprintf("%s id must be an integer, but it is: %s", what, name))
	case int32(id) != c.broker:
		return refuse(InvalidRequest, fmt.Sprintf(other, c.broker, name))
	}
	return nil
}
