package kafka

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
)

// alterConfigs replaces whole configurations: keys that are not in the request are reset to their
// defaults. Old clients use it; newer ones use IncrementalAlterConfigs. Key 33, versions 0 to 2.
func (c *call) alterConfigs(req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	eachOnce(c, req.Resources, toReplace, func(r *kmsg.AlterConfigsRequestResource, err error) {
		if err == nil {
			err = c.replaceResource(*r, req.ValidateOnly)
		}
		rr := kmsg.NewAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		rr.ErrorCode, rr.ErrorMessage = c.errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, rr)
	})
	return resp
}

func toReplace(r *kmsg.AlterConfigsRequestResource) configResource {
	return configResource{int8(r.ResourceType), r.ResourceName}
}

// eachOnce calls alter for every resource of a request, in order. It passes an error for each
// resource that occurs more than once.
func eachOnce[R any](c *call, resources []R, id func(*R) configResource, alter func(*R, error)) {
	times := timesOf(resources, id)
	for i := range each(c, resources) {
		r := &resources[i]
		switch n := times[id(r)]; {
		case n == 1:
			alter(r, nil)
		default:
			alter(r, refuse(InvalidRequest, "Each resource must appear at most once."))
		}
	}
}

// timesOf returns how often each resource occurs.
func timesOf[R any](resources []R, id func(*R) configResource) map[configResource]int {
	times := map[configResource]int{}
	for i := range resources {
		times[id(&resources[i])]++
	}
	return times
}

func (c *call) replaceResource(r kmsg.AlterConfigsRequestResource, validateOnly bool) error {
	props := make(map[string]string, len(r.Configs))
	var nulls []string
	for _, kv := range r.Configs {
		if _, twice := props[kv.Name]; twice {
			return refuse(InvalidRequest, "Error due to duplicate config keys")
		}
		props[kv.Name] = ""
		if kv.Value == nil {
			nulls = append(nulls, kv.Name)
		} else {
			props[kv.Name] = *kv.Value
		}
	}
	if len(nulls) > 0 {
		return refuse(InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	var changes []replication.ConfigChange
	for _, kv := range r.Configs {
		changes = append(changes, replication.ConfigChange{Key: kv.Name, Value: *kv.Value})
	}
	switch int8(r.ResourceType) {
	case resourceBroker:
		return c.replaceBroker(r.ResourceName, props, validateOnly)
	case resourceGroup:
		return c.alterGroup(r.ResourceName, group.ConfigAlteration{Changes: changes, Replace: true, DryRun: validateOnly})
	case resourceClientMetrics:
		return c.alterClientMetrics(r.ResourceName, changes, true, validateOnly)
	}
	// As in Kafka, only IncrementalAlterConfigs supports loggers.
	if int8(r.ResourceType) == resourceBrokerLogger {
		return refuse(InvalidRequest, fmt.Sprintf("Unknown resource type %d", r.ResourceType))
	}
	if err := c.alterable(int8(r.ResourceType), r.ResourceName, len(props)); err != nil || int8(r.ResourceType) != resourceTopic {
		return err
	}
	return c.topicConfigRefused(r.ResourceName, props, c.changer(validateOnly).ReplaceTopicConfig(c.ctx, r.ResourceName, props))
}

func (c *call) replaceBroker(name string, props map[string]string, validateOnly bool) error {
	broker, err := c.alterableBroker(name)
	if err != nil {
		return err
	}
	var changes []replication.ConfigChange
	for key := range c.s.cluster.BrokerConfig(broker) {
		if _, stays := props[key]; !stays {
			changes = append(changes, replication.ConfigChange{Key: key, Op: replication.UnsetConfig})
		}
	}
	for key, value := range props {
		changes = append(changes, replication.ConfigChange{Key: key, Value: value})
	}
	return c.alterConfig(resourceBroker, name, changes, validateOnly)
}
