package kafka

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// Endpoint types of DescribeCluster, from version 1 on.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeCluster returns the brokers and the cluster id; version 2 includes fenced brokers on
// request (KIP-1073). The controller is the active controller; Kafka returns any broker, because
// all of them forward. Controllers have no endpoints: a request for them gets an error. Key 60,
// versions 0 to 2.
func (c *call) describeCluster(req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ControllerID, resp.ClusterAuthorizedOperations = -1, noOperations
	var err error
	switch {
	case c.version >= 1 && req.EndpointType == endpointControllers:
		err = refuse(MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	case c.version >= 1 && req.EndpointType != endpointBrokers:
		err = refuse(UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType))
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	known, err := c.s.cluster.Metadata(c.ctx, noTopic)
	if err != nil {
		return c.hangUp()
	}
	resp.ClusterID, resp.ControllerID = known.ClusterID, known.Controller
	resp.Brokers = c.describedBrokers(known.Brokers)
	if c.version >= 2 && req.IncludeFencedBrokers {
		fenced := c.describedBrokers(known.Fenced)
		for i := range fenced {
			fenced[i].IsFenced = true
		}
		resp.Brokers = append(resp.Brokers, fenced...)
		slices.SortFunc(resp.Brokers, func(a, b kmsg.DescribeClusterResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = c.onCluster()
	}
	return resp
}

// describedBrokers returns the brokers that have, or had, a listener of the name of the client's.
func (c *call) describedBrokers(brokers []replication.Broker) (described []kmsg.DescribeClusterResponseBroker) {
	for _, b := range brokers {
		if host, port, ok := c.address(b.ID); ok {
			rb := kmsg.NewDescribeClusterResponseBroker()
			rb.NodeID, rb.Host, rb.Port, rb.Rack = b.ID, host, port, rack(b.Rack)
			described = append(described, rb)
		}
	}
	return described
}
