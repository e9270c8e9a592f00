package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// Kinds of endpoints that DescribeCluster asks for, from version 1 on.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeCluster names the brokers and the cluster. Controllers have no endpoints of their own: a client that means to talk to one is refused.
func (c *call) describeCluster(req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ControllerID, resp.ClusterAuthorizedOperations = -1, noOperations
	var err error
	switch {
	case c.version >= 1 && req.EndpointType == endpointControllers:
		err = refuse(MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	case c.version >= 1 && req.EndpointType != endpointBrokers:
		err = refuse(UnsupportedEndpointType, "Unsupported endpoint type")
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.errorCode(err), errorMessage(err)
		return resp
	}
	resp.ClusterID, resp.ControllerID = c.s.cluster.ClusterID(), c.s.cluster.Controller()
	for _, b := range c.s.cluster.Brokers() {
		if host, port, ok := c.s.address(b); ok {
			rb := kmsg.NewDescribeClusterResponseBroker()
			rb.NodeID, rb.Host, rb.Port = b, host, port
			resp.Brokers = append(resp.Brokers, rb)
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp
}
