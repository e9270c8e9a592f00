package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// mayConfigure returns the error code of an operation on the configuration of a resource, 0 if it
// is permitted. It returns 0 for an unknown type of resource, which the handler rejects. Kafka:
// ControllerApis.authorizeAlterResource, ConfigHelper, ConfigAdminManager of loggers.
func (c *call) mayConfigure(o acl.Operation, kind kmsg.ConfigResourceType, name string) Code {
	switch kind {
	case resourceTopic:
		if !c.allows(o, acl.Topic, name) {
			return TopicAuthorizationFailed
		}
	case resourceGroup:
		if !c.allows(o, acl.Group, name) {
			return GroupAuthorizationFailed
		}
	case resourceBroker, resourceBrokerLogger, resourceClientMetrics:
		if !c.mayCluster(o) {
			return ClusterAuthorizationFailed
		}
	}
	return 0
}

func guardDescribeConfigs(c *call, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	var refused []kmsg.DescribeConfigsResponseResource
	req.Resources, _ = split(req.Resources, func(r *kmsg.DescribeConfigsRequestResource) bool {
		code := c.mayConfigure(acl.DescribeConfigs, r.ResourceType, r.ResourceName)
		if code != 0 {
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode, rr.ErrorMessage = r.ResourceType, r.ResourceName, int16(code), authorizationText(code)
			refused = append(refused, rr)
		}
		return code == 0
	})
	if len(refused) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.DescribeConfigsResponse) { resp.Resources = append(resp.Resources, refused...) })
}

func guardAlterConfigs(c *call, req *kmsg.AlterConfigsRequest) kmsg.Response {
	asked := req.Resources
	times := timesOf(asked, toReplace)
	var refused []kmsg.AlterConfigsResponseResource
	req.Resources, _ = split(req.Resources, func(r *kmsg.AlterConfigsRequestResource) bool {
		code := c.mayConfigure(acl.AlterConfigs, r.ResourceType, r.ResourceName)
		if times[configResource{int8(r.ResourceType), r.ResourceName}] > 1 {
			code = 0 // the handler rejects duplicates, whatever the permissions
		}
		if code != 0 {
			rr := kmsg.NewAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode, rr.ErrorMessage = r.ResourceType, r.ResourceName, int16(code), authorizationText(code)
			refused = append(refused, rr)
		}
		return code == 0
	})
	if len(refused) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.AlterConfigsResponse) {
		resp.Resources = asAsked(append(resp.Resources, refused...), func(r *kmsg.AlterConfigsResponseResource) configResource {
			return configResource{int8(r.ResourceType), r.ResourceName}
		}, asked, toReplace)
	})
}

func guardIncrementalAlterConfigs(c *call, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	asked := req.Resources
	times := timesOf(asked, toAlter)
	var refused []kmsg.IncrementalAlterConfigsResponseResource
	req.Resources, _ = split(req.Resources, func(r *kmsg.IncrementalAlterConfigsRequestResource) bool {
		code := c.mayConfigure(acl.AlterConfigs, r.ResourceType, r.ResourceName)
		if times[configResource{int8(r.ResourceType), r.ResourceName}] > 1 {
			code = 0 // the handler rejects duplicates, whatever the permissions
		}
		if code != 0 {
			rr := kmsg.NewIncrementalAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode, rr.ErrorMessage = r.ResourceType, r.ResourceName, int16(code), authorizationText(code)
			refused = append(refused, rr)
		}
		return code == 0
	})
	if len(refused) == 0 {
		return nil
	}
	return then(c, func(resp *kmsg.IncrementalAlterConfigsResponse) {
		resp.Resources = asAsked(append(resp.Resources, refused...), func(r *kmsg.IncrementalAlterConfigsResponseResource) configResource {
			return configResource{int8(r.ResourceType), r.ResourceName}
		}, asked, toAlter)
	})
}

// asAsked returns results, one for each resource of the request, in the order of asked. Results of
// the same resource are equal.
func asAsked[R, Q any](results []R, of func(*R) configResource, asked []Q, id func(*Q) configResource) []R {
	byID := map[configResource][]R{}
	for i := range results {
		byID[of(&results[i])] = append(byID[of(&results[i])], results[i])
	}
	ordered := make([]R, 0, len(results))
	for i := range asked {
		if same := byID[id(&asked[i])]; len(same) > 0 {
			ordered, byID[id(&asked[i])] = append(ordered, same[0]), same[1:]
		}
	}
	return ordered
}

// guardDescribeLogDirs requires Describe on the cluster. Before version 3 the response has no
// field for the error, and is empty.
func guardDescribeLogDirs(c *call, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	if c.mayCluster(acl.Describe) {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	resp.ErrorCode = int16(ClusterAuthorizationFailed)
	return resp
}
