package kfake

import (
	"context"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
)

// A Fault returns an error to matching requests. A request matches if it matches every field that
// is set. It does not match a field that it lacks, as a heartbeat lacks a Topic.
//
// The matching parts of a request get the error and are not served; the other parts are. Some
// errors mean that the broker did apply the request, and are returned after it was served:
// REQUEST_TIMED_OUT for a request that changes state, and NOT_ENOUGH_REPLICAS_AFTER_APPEND for a
// produce request. If several faults match, the first one added applies. Faults do not apply to a
// request that a control function handles.
type Fault struct {
	Keys  []kmsg.Key // nil: all
	Nodes []int32    // nodes that receive the request; nil: all

	Topic      string   // "": all
	TopicID    [16]byte // zero: all
	Partitions []int32  // nil: all
	Group      string   // "": all; matches FindCoordinator too
	TxnID      string   // "": all; matches FindCoordinator too

	// TopLevel sets the top-level error code of the response instead of the codes of its parts. A
	// request whose response has no top-level code does not match.
	TopLevel bool

	// Resource is the name of a part of the request for which there is no field above: a resource
	// whose configuration is read or changed, the resource of an ACL that is created or deleted, a
	// user whose credentials are described, a feature, a member that leaves. "": all. Unlike other
	// parts it is served before the error replaces its result.
	Resource string

	Err   *kerr.Error // nil: UNKNOWN_SERVER_ERROR
	Count int         // number of requests; 0: one; below 0: all until Remove

	// When is called for a request that matches all other fields; the fault applies if it returns
	// true. It is called on a goroutine of the request's connection, and must neither block nor
	// change the request. nil: all.
	When func(kmsg.Request) bool

	// Observe only counts matching requests, and serves them.
	Observe bool
}

// A FaultHandle refers to the faults of one call of Cluster.Fault. It is safe for concurrent use.
type FaultHandle struct {
	server *kafkatest.Server
	faults []*kafkatest.Injected
}

// Fault adds faults. Control functions may call it.
func (c *Cluster) Fault(faults ...Fault) *FaultHandle {
	h := &FaultHandle{server: c.server}
	for _, f := range faults {
		f.Keys, f.Nodes, f.Partitions = slices.Clone(f.Keys), slices.Clone(f.Nodes), slices.Clone(f.Partitions)
		if f.Err == nil {
			f.Err = kerr.UnknownServerError
		}
		h.faults = append(h.faults, c.server.Fault(c.fault(f)))
	}
	return h
}

// Hits returns the number of requests that the faults have hit so far.
func (h *FaultHandle) Hits() (n int) {
	for _, f := range h.faults {
		n += f.Hits()
	}
	return n
}

// Wait waits until the faults together have hit n requests. It returns ctx's error if ctx ends
// first.
func (h *FaultHandle) Wait(ctx context.Context, n int) error {
	return h.server.WaitUntil(ctx, func() bool { return h.Hits() >= n })
}

// Remove ends the faults. Requests that they have already hit get their error.
func (h *FaultHandle) Remove() {
	for _, f := range h.faults {
		f.Remove()
	}
}

// fault translates a fault.
func (c *Cluster) fault(f Fault) kafkatest.Fault {
	k := kafkatest.Fault{Topic: f.Topic, Partitions: f.Partitions, Group: f.Group, TransactionalID: f.TxnID, Times: max(f.Count, kafkatest.Always)}
	if f.Count == 0 {
		k.Times = 1
	}
	if f.TopicID != [16]byte{} {
		k.Topic, _ = c.inside().TopicName(f.TopicID)
	}
	k.Decide = func(x *kafka.Exchange) *kafkatest.Effect {
		switch { // kafkatest rejects keys that cannot match; here they match no request
		case !f.hasKey(kmsg.Key(x.Key)),
			len(f.Nodes) > 0 && !slices.Contains(f.Nodes, nodeOf(x.Broker)),
			f.TopicID != [16]byte{} && (k.Topic == "" || !c.isNamed(f.TopicID, k.Topic)),
			f.TopLevel && !topLevelCode(x.Request.ResponseKind()).IsValid(),
			f.When != nil && !f.When(x.Request):
			return nil
		}
		list, at := "", []int(nil)
		if f.Resource != "" {
			if list, at = answeredAt(x.Request, f.Resource); len(at) == 0 {
				return nil
			}
		}
		switch {
		case f.Observe:
			return &kafkatest.Effect{Edit: func(kmsg.Request, kmsg.Response) {}}
		case f.TopLevel:
			return &kafkatest.Effect{Respond: func(_ kmsg.Request, resp kmsg.Response) { topLevelCode(resp).SetInt(int64(f.Err.Code)) }}
		}
		if f.Resource != "" {
			return &kafkatest.Effect{Edit: func(_ kmsg.Request, resp kmsg.Response) { fail(resp, list, at, f.Err) }}
		}
		return &kafkatest.Effect{Code: kafka.Code(f.Err.Code), AfterApply: appliesBefore(x.Request, f.Err)}
	}
	return k
}

// hasKey reports whether the fault is about an API.
func (f *Fault) hasKey(key kmsg.Key) bool { return len(f.Keys) == 0 || slices.Contains(f.Keys, key) }

func (c *Cluster) isNamed(id [16]byte, name string) bool {
	now, ok := c.inside().TopicName(id)
	return ok && now == name
}

// topLevelCode returns the top-level error code of a response. It is not valid if there is none.
func topLevelCode(resp kmsg.Response) reflect.Value {
	code := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode")
	if !code.IsValid() || code.Kind() != reflect.Int16 {
		return reflect.Value{}
	}
	return code
}

// changing are the APIs for which a broker may return REQUEST_TIMED_OUT although it has applied the
// request, or is still applying it.
var changing = map[kafka.Key]bool{
	kafka.Produce: true, kafka.WriteTxnMarkers: true, kafka.DeleteRecords: true, kafka.OffsetCommit: true, kafka.TxnOffsetCommit: true,
	kafka.DeleteGroups: true, kafka.AlterShareGroupOffsets: true, kafka.DeleteShareGroupOffsets: true, kafka.CreateTopics: true,
	kafka.DeleteTopics: true, kafka.CreatePartitions: true, kafka.ElectLeaders: true, kafka.AlterPartitionReassignments: true,
	kafka.AlterConfigs: true, kafka.IncrementalAlterConfigs: true, kafka.CreateACLs: true, kafka.DeleteACLs: true,
	kafka.AlterClientQuotas: true, kafka.AlterUserScramCredentials: true, kafka.UpdateFeatures: true,
}

// appliesBefore reports whether a broker that returns e has applied the request.
func appliesBefore(req kmsg.Request, e *kerr.Error) bool {
	key := kafka.Key(req.Key())
	switch e {
	case kerr.RequestTimedOut:
		return changing[key]
	case kerr.NotEnoughReplicasAfterAppend:
		return key == kafka.Produce || key == kafka.WriteTxnMarkers
	}
	return false
}
