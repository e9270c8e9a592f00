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

// A Fault has requests answered with an error. Its fields say which: a request has to fit all that
// are set, and what it does not carry it does not fit, as a heartbeat does not fit a Topic.
//
// What fits gets the error and is not served, the rest of the request is. Some errors are those of
// a broker that has done what it was asked: REQUEST_TIMED_OUT to a request that changes something
// and NOT_ENOUGH_REPLICAS_AFTER_APPEND to a produce request come after it was served. Of several
// faults that fit a request the first that was added counts. A request that a control function
// handles is no fault's.
type Fault struct {
	Keys  []kmsg.Key // nil: all
	Nodes []int32    // that receive the request; nil: all

	Topic      string   // "": all
	TopicID    [16]byte // zero: all
	Partitions []int32  // nil: all
	Group      string   // "": all; also whose coordinator is looked for
	TxnID      string   // "": all; also whose coordinator is looked for

	// TopLevel answers with the error code of the response as a whole, rather than those of what it
	// is about. A request whose response has none does not fit.
	TopLevel bool

	// Resource is the name of what the fields above do not reach: a resource that is configured,
	// what an ACL is about that is created or deleted, a user whose credentials are described, a
	// feature, a member that leaves. "": all. What it names is served here, too, before the error
	// is put in its place.
	Resource string

	Err   *kerr.Error // nil: UNKNOWN_SERVER_ERROR
	Count int         // how many requests. 0: one; below 0: all until Remove

	// When has the last word about whether a request fits. It is called on a goroutine of the
	// request's connection and must not block, nor change the request.
	When func(kmsg.Request) bool

	// Observe only counts the requests that fit: they are served.
	Observe bool
}

// A FaultHandle is the faults of one call of Cluster.Fault. It is safe for concurrent use.
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

// Hits returns how many requests the faults have hit so far.
func (h *FaultHandle) Hits() (n int) {
	for _, f := range h.faults {
		n += f.Hits()
	}
	return n
}

// Wait waits until the faults have hit n requests together. It returns ctx's error if ctx ends
// before.
func (h *FaultHandle) Wait(ctx context.Context, n int) error {
	return h.server.WaitUntil(ctx, func() bool { return h.Hits() >= n })
}

// Remove ends the faults. What they have hit is answered as they say.
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
		switch { // kafkatest refuses keys that cannot fit, which here fit nothing
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

// topLevelCode returns the error code of a response as a whole; not valid: it has none.
func topLevelCode(resp kmsg.Response) reflect.Value {
	code := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode")
	if !code.IsValid() || code.Kind() != reflect.Int16 {
		return reflect.Value{}
	}
	return code
}

// changing are the APIs that a broker may answer REQUEST_TIMED_OUT though it has done what it was
// asked, or is still doing it.
var changing = map[kafka.Key]bool{
	kafka.Produce: true, kafka.WriteTxnMarkers: true, kafka.DeleteRecords: true, kafka.OffsetCommit: true, kafka.TxnOffsetCommit: true,
	kafka.DeleteGroups: true, kafka.AlterShareGroupOffsets: true, kafka.DeleteShareGroupOffsets: true, kafka.CreateTopics: true,
	kafka.DeleteTopics: true, kafka.CreatePartitions: true, kafka.ElectLeaders: true, kafka.AlterPartitionReassignments: true,
	kafka.AlterConfigs: true, kafka.IncrementalAlterConfigs: true, kafka.CreateACLs: true, kafka.DeleteACLs: true,
	kafka.AlterClientQuotas: true, kafka.AlterUserScramCredentials: true, kafka.UpdateFeatures: true,
}

// appliesBefore reports whether a broker that answers with e has done what it was asked.
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
