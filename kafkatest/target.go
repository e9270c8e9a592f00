package kafkatest

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
)

// A target is one subject of a request, as detailed as the request names it: a partition, a topic,
// a group, a transactional id, or none.
type target struct {
	group     string
	txn       string // transactional id of the producer, or of the subject
	kind      int8   // type of the keys of a FindCoordinator request
	topic     string
	id        [16]byte // of the topic; newer versions of some APIs name topics by id
	partition int32    // -1: none named
	all       bool     // the request names no topics, which means all topics
}

func (t target) namesTopic() bool { return t.topic != "" || t.id != [16]byte{} }

// Kinds of resources in requests about configurations. Kafka: ConfigResource.Type.
const (
	resourceTopic kmsg.ConfigResourceType = 2
	resourceGroup kmsg.ConfigResourceType = 32
)

// targets returns all targets of req. There is at least one, which may be empty.
func targets(req kmsg.Request) []target {
	var found []target
	split(req, func(t target) bool {
		found = append(found, t)
		return false
	})
	return found
}

// answersPartitions reports whether req names topics only, and its response has partitions.
func answersPartitions(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.MetadataRequest, *kmsg.DescribeTopicPartitionsRequest:
		return true
	}
	return false
}

// split returns two copies of req: one with the targets that pick selects, the other with the rest.
// A copy without targets is nil. req is not changed. The copies share its other values.
func split(req kmsg.Request, pick func(target) bool) (picked, rest kmsg.Request) {
	p, r := splitStruct(reflect.ValueOf(req).Elem(), target{partition: -1}, pick)
	return request(p), request(r)
}

func request(v reflect.Value) kmsg.Request {
	if !v.IsValid() {
		return nil
	}
	return v.Addr().Interface().(kmsg.Request)
}

// splitStruct is split for one struct of a request. A result without targets is not valid.
func splitStruct(v reflect.Value, ctx target, pick func(target) bool) (picked, rest reflect.Value) {
	ctx = ctx.within(v)
	p, r := copyOf(v), copyOf(v)
	lists, pickedAny, restAny := 0, false, false
	for _, names := range errorreply.Lists {
		list := v.FieldByName(names.Request)
		if !list.IsValid() || isHeartbeat(v) {
			continue
		}
		if list.Len() == 0 {
			ctx.all = ctx.all || names.Request == "Topics" && meansAll(v)
			continue
		}
		lists++
		pl, rl := splitList(list, names.Request, ctx, pick)
		p.FieldByName(names.Request).Set(pl)
		r.FieldByName(names.Request).Set(rl)
		pickedAny, restAny = pickedAny || pl.Len() > 0, restAny || rl.Len() > 0
	}
	if lists == 0 {
		pickedAny = pick(ctx)
		restAny = !pickedAny
	}
	if !pickedAny {
		p = reflect.Value{}
	}
	if !restAny {
		r = reflect.Value{}
	}
	return p, r
}

// isHeartbeat reports whether v is a request whose topics are the partitions that a member owns.
// Its only target is the group, and it must not be split: half of it would revoke the other half.
func isHeartbeat(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(*kmsg.ConsumerGroupHeartbeatRequest)
	return ok
}

// meansAll reports whether a struct of a request names no topics, which means all topics.
func meansAll(v reflect.Value) bool {
	switch q := v.Addr().Interface().(type) {
	case *kmsg.MetadataRequest:
		return q.Version == 0 || q.Topics == nil // an empty list, as in requests for brokers only, means none
	case *kmsg.DescribeTopicPartitionsRequest, *kmsg.OffsetFetchRequest, *kmsg.OffsetFetchRequestGroup,
		*kmsg.DescribeLogDirsRequest, *kmsg.ElectLeadersRequest, *kmsg.ListPartitionReassignmentsRequest:
		return true
	}
	return false
}

func splitList(list reflect.Value, name string, ctx target, pick func(target) bool) (picked, rest reflect.Value) {
	ctx.all = false
	picked, rest = reflect.Zero(list.Type()), reflect.Zero(list.Type())
	for i := range list.Len() {
		elem := list.Index(i)
		if elem.Kind() == reflect.Struct {
			p, r := splitStruct(elem, ctx, pick)
			if p.IsValid() {
				picked = reflect.Append(picked, p)
			}
			if r.IsValid() {
				rest = reflect.Append(rest, r)
			}
			continue
		}
		if pick(ctx.element(name, elem)) {
			picked = reflect.Append(picked, elem)
		} else {
			rest = reflect.Append(rest, elem)
		}
	}
	return picked, rest
}

// element returns the target of a list's element that is a bare name or number.
func (t target) element(list string, v reflect.Value) target {
	switch list {
	case "Partitions":
		t.partition = int32(v.Int())
	case "TopicNames":
		t.topic = v.String()
	case "Groups", "GroupIDs":
		t.group = v.String()
	case "CoordinatorKeys":
		t = t.coordinated(v.String())
	case "TransactionalIDs":
		t.txn = v.String()
	}
	return t
}

// coordinatorOfTransactions is the kind of coordinator whose keys are transactional ids.
const coordinatorOfTransactions = 1

// coordinated returns t narrowed by the key of a coordinator.
func (t target) coordinated(key string) target {
	if t.kind == coordinatorOfTransactions {
		t.txn = key
	} else {
		t.group = key
	}
	return t
}

// within returns t narrowed by the fields of the struct v, of a request or a response.
func (t target) within(v reflect.Value) target {
	if s, ok := stringField(v, "Topic"); ok {
		t.topic = s
	}
	if f := v.FieldByName("TopicID"); f.IsValid() {
		t.id = f.Interface().([16]byte)
	}
	if f := v.FieldByName("Partition"); f.IsValid() {
		t.partition = int32(f.Int())
	}
	for _, name := range []string{"Group", "GroupID"} {
		if s, ok := stringField(v, name); ok {
			t.group = s
		}
	}
	for _, name := range []string{"TransactionalID", "TransactionID"} {
		if s, ok := stringField(v, name); ok {
			t.txn = s
		}
	}
	switch m := v.Addr().Interface().(type) {
	case *kmsg.FindCoordinatorRequest:
		t.kind = m.CoordinatorType
		t = t.coordinated(m.CoordinatorKey)
	case *kmsg.DescribeConfigsRequestResource:
		t = t.resource(m.ResourceType, m.ResourceName)
	case *kmsg.AlterConfigsRequestResource:
		t = t.resource(m.ResourceType, m.ResourceName)
	case *kmsg.IncrementalAlterConfigsRequestResource:
		t = t.resource(m.ResourceType, m.ResourceName)
	}
	return t
}

func (t target) resource(kind kmsg.ConfigResourceType, name string) target {
	switch kind {
	case resourceTopic:
		t.topic = name
	case resourceGroup:
		t.group = name
	}
	return t
}

// stringField returns a field that is a string or a pointer to one.
func stringField(v reflect.Value, name string) (string, bool) {
	f := v.FieldByName(name)
	if f.IsValid() && f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return "", true
		}
		f = f.Elem()
	}
	if !f.IsValid() || f.Kind() != reflect.String {
		return "", false
	}
	return f.String(), true
}

// copyOf returns an addressable shallow copy.
func copyOf(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
