package kfake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Nodes count from 0 as in kfake, brokers from 1. The ids in requests and responses are translated:
// brokers get only broker ids, and clients and tests only node ids.

func brokerOf(node int32) int32 { return node + 1 }

// nodeOf returns the node of a broker. Negative numbers, such as -1 for none, stay. 0 becomes -1:
// responses to members of share groups have 0 for no broker, but 0 is a node.
func nodeOf(broker int32) int32 {
	if broker < 0 {
		return broker
	}
	return broker - 1
}

// nodeFields are the fields of responses that hold broker ids.
var nodeFields = map[string]bool{
	"NodeID": true, "ControllerID": true, "Leader": true, "LeaderID": true, "BrokerID": true, "PreferredReadReplica": true,
	"Replicas": true, "ISR": true, "OfflineReplicas": true, "AddingReplicas": true, "RemovingReplicas": true,
	"EligibleLeaderReplicas": true, "LastKnownELR": true,
}

// withNodes are the APIs whose responses have such fields.
var withNodes = map[kafka.Key]bool{
	kafka.Produce: true, kafka.Fetch: true, kafka.Metadata: true, kafka.FindCoordinator: true, kafka.DescribeCluster: true,
	kafka.DescribeTopicPartitions: true, kafka.ListPartitionReassignments: true, kafka.ShareFetch: true, kafka.ShareAcknowledge: true,
	kafka.DescribeQuorum: true, kafka.DescribeConfigs: true, kafka.AlterConfigs: true, kafka.IncrementalAlterConfigs: true,
}

// toNodes replaces broker ids in a response by node ids. It changes the response, but replaces
// slices of ids instead of changing them, because they may be shared.
func toNodes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			toNodes(v.Elem())
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				toNodes(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if !f.CanSet() {
				continue
			}
			if !nodeFields[v.Type().Field(i).Name] {
				toNodes(f)
				continue
			}
			switch x := f.Interface().(type) {
			case int32:
				f.SetInt(int64(nodeOf(x)))
			case []int32:
				f.Set(reflect.ValueOf(nodesOf(x)))
			default:
				toNodes(f)
			}
		}
	}
}

// nodesOf returns the nodes of brokers.
func nodesOf(brokers []int32) []int32 {
	if brokers == nil {
		return nil
	}
	nodes := make([]int32, len(brokers))
	for i, b := range brokers {
		nodes[i] = nodeOf(b)
	}
	return nodes
}

func brokersOf(nodes []int32) []int32 {
	if nodes == nil {
		return nil
	}
	brokers := make([]int32, len(nodes))
	for i, n := range nodes {
		brokers[i] = brokerOf(n)
	}
	return brokers
}

// Kinds of resources that are brokers. Kafka: ConfigResource.Type.
const (
	resourceBroker       kmsg.ConfigResourceType = 4
	resourceBrokerLogger kmsg.ConfigResourceType = 8
)

// shiftName returns the name of a resource, with n added if it is the id of a broker.
func shiftName(kind kmsg.ConfigResourceType, name string, n int) string {
	id, err := strconv.Atoi(name)
	if err != nil || kind != resourceBroker && kind != resourceBrokerLogger {
		return name
	}
	return strconv.Itoa(id + n)
}

// toBrokers returns a copy of req with broker ids in place of node ids; nil if req has none. req is
// not changed.
func toBrokers(req kmsg.Request) kmsg.Request {
	switch q := req.(type) {
	case *kmsg.CreateTopicsRequest:
		r := *q
		r.Topics = slices.Clone(q.Topics)
		for i := range r.Topics {
			t := &r.Topics[i]
			t.ReplicaAssignment = slices.Clone(t.ReplicaAssignment)
			for j := range t.ReplicaAssignment {
				t.ReplicaAssignment[j].Replicas = brokersOf(t.ReplicaAssignment[j].Replicas)
			}
		}
		return &r
	case *kmsg.CreatePartitionsRequest:
		r := *q
		r.Topics = slices.Clone(q.Topics)
		for i := range r.Topics {
			t := &r.Topics[i]
			t.Assignment = slices.Clone(t.Assignment)
			for j := range t.Assignment {
				t.Assignment[j].Replicas = brokersOf(t.Assignment[j].Replicas)
			}
		}
		return &r
	case *kmsg.AlterPartitionAssignmentsRequest:
		r := *q
		r.Topics = slices.Clone(q.Topics)
		for i := range r.Topics {
			t := &r.Topics[i]
			t.Partitions = slices.Clone(t.Partitions)
			for j := range t.Partitions {
				t.Partitions[j].Replicas = brokersOf(t.Partitions[j].Replicas)
			}
		}
		return &r
	case *kmsg.DescribeConfigsRequest:
		r := *q
		r.Resources = slices.Clone(q.Resources)
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, 1)
		}
		return &r
	case *kmsg.AlterConfigsRequest:
		r := *q
		r.Resources = slices.Clone(q.Resources)
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, 1)
		}
		return &r
	case *kmsg.IncrementalAlterConfigsRequest:
		r := *q
		r.Resources = slices.Clone(q.Resources)
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, 1)
		}
		return &r
	}
	return nil
}

// translate changes a response of the brokers to one of the cluster that tests see.
func (c *Cluster) translate(_ kmsg.Request, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		r.ClusterID = &c.cfg.clusterID
	case *kmsg.DescribeClusterResponse:
		r.ClusterID = c.cfg.clusterID
	case *kmsg.DescribeConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, -1)
		}
	case *kmsg.AlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, -1)
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ResourceName = shiftName(r.Resources[i].ResourceType, r.Resources[i].ResourceName, -1)
		}
	}
	toNodes(reflect.ValueOf(resp))
}

// Before passes a request to the control functions. It implements kafka.Interceptor.
func (i intercept) Before(x *kafka.Exchange) kafka.Action {
	c := i.c
	v, ok := c.controls.run(x.Request, nodeOf(x.Broker), c.goneOf(x.Broker))
	switch {
	case !ok || v.handled && v.err != nil:
		return kafka.Action{CloseBefore: true}
	case v.handled && v.resp == nil:
		return kafka.Action{DropRequest: true}
	case v.handled:
		return kafka.Action{Respond: func(kmsg.Request) kmsg.Response { return v.resp }}
	}
	if ofCoordinators[kafka.Key(x.Key)] {
		c.coordinators.Do(c.coordinate)
	}
	if c.canned != nil {
		if a, ok := c.canned.action(c, x); ok {
			return a
		}
	}
	a := kafka.Action{Serve: toBrokers(x.Request)}
	switch key := kafka.Key(x.Key); {
	case withNodes[key]:
		a.Edit = c.translate
	case key == kafka.EndTxn:
		gone := c.goneOf(x.Broker)
		a.Edit = func(req kmsg.Request, resp kmsg.Response) {
			if resp.(*kmsg.EndTxnResponse).ErrorCode == 0 {
				c.awaitMarkers(req.(*kmsg.EndTxnRequest).TransactionalID, gone)
			}
		}
	}
	return a
}

// awaitMarkers waits until the markers of an ended transaction are written: in kfake a transaction
// is complete before the client gets the response. It is called on the goroutine of the request,
// and delays the connection.
func (c *Cluster) awaitMarkers(id string, gone <-chan struct{}) {
	ctx, cancel := c.contextUntil(gone)
	defer cancel()
	if err := c.inside().TransactionCoordinator().WaitEnded(ctx, id); err != nil && !errors.Is(err, context.Canceled) {
		c.logf(LogLevelWarn, "markers of transaction %s: %v", id, err)
	}
}

// ofCoordinators are the APIs of coordinators.
var ofCoordinators = map[kafka.Key]bool{
	kafka.OffsetCommit: true, kafka.OffsetFetch: true, kafka.JoinGroup: true, kafka.Heartbeat: true, kafka.LeaveGroup: true, kafka.SyncGroup: true,
	kafka.DescribeGroups: true, kafka.DeleteGroups: true, kafka.OffsetDelete: true, kafka.InitProducerID: true, kafka.AddPartitionsToTxn: true,
	kafka.AddOffsetsToTxn: true, kafka.EndTxn: true, kafka.TxnOffsetCommit: true, kafka.DescribeTransactions: true,
	kafka.ConsumerGroupHeartbeat: true, kafka.ConsumerGroupDescribe: true, kafka.ShareGroupHeartbeat: true, kafka.ShareGroupDescribe: true,
	kafka.ShareFetch: true, kafka.ShareAcknowledge: true, kafka.DescribeShareGroupOffsets: true, kafka.AlterShareGroupOffsets: true, kafka.DeleteShareGroupOffsets: true,
}

// coordinate creates the topics of the coordinators. A broker creates them when a client looks up a
// coordinator; a test may send requests to it without a lookup.
func (c *Cluster) coordinate() {
	ctx, cancel := c.context()
	defer cancel()
	_, err := c.inside().Coordinator.FindCoordinator(ctx, "any")
	if err == nil {
		_, err = c.inside().Groups(ctx) // waits until the coordinators are loaded
	}
	if err == nil {
		_, err = c.inside().TransactionCoordinator().FindCoordinator(ctx, "any")
	}
	if err == nil {
		_, err = c.inside().TransactionCoordinator().List(ctx)
	}
	if err != nil {
		c.logf(LogLevelError, "create the topics of coordinators: %v", err)
	}
}

// After implements kafka.Interceptor.
func (intercept) After(*kafka.Exchange) {}

// intercept is the Cluster as a kafka.Interceptor between clients and brokers.
type intercept struct{ c *Cluster }

// goneOf returns a channel that is closed when a broker is removed.
func (c *Cluster) goneOf(broker int32) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goneOfLocked(broker)
}

func (c *Cluster) goneOfLocked(broker int32) chan struct{} {
	if c.gone[broker] == nil {
		c.gone[broker] = make(chan struct{})
	}
	return c.gone[broker]
}

// checkNode returns an error if there is no such node.
func (c *Cluster) checkNode(node int32) error {
	if node < 0 || !slices.Contains(c.inside().Cluster.Brokers(), brokerOf(node)) {
		return fmt.Errorf("kfake: there is no node %d", node)
	}
	return nil
}
