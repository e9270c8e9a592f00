package kafka

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seedRequests are requests of every API in every served version. One is empty; the other has a
// value in each of its fields and names a topic and a group that may exist.
func seedRequests() []kmsg.Request {
	var all []kmsg.Request
	for _, a := range apis {
		for v := a.min; v <= a.max; v++ {
			empty := kmsg.RequestForKey(int16(a.key))
			empty.SetVersion(v)
			all = append(all, empty, filledRequest(a.key, v))
		}
	}
	return all
}

func filledRequest(key Key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(int16(key))
	fill(reflect.ValueOf(req).Elem(), "")
	req.SetVersion(version)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.TransactionID, r.Acks, r.TimeoutMillis = nil, -1, 1000
		r.Topics[0].Partitions[0].Records = batch("key", "value")
	case *kmsg.FetchRequest:
		r.ReplicaID, r.SessionID, r.SessionEpoch, r.MaxWaitMillis, r.MaxBytes = -1, 0, -1, 1, 1<<20
		p := &r.Topics[0].Partitions[0]
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = 0, 1<<20, -1, -1
	case *kmsg.InitProducerIDRequest:
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = nil, -1, -1
	case *kmsg.JoinGroupRequest:
		r.MemberID, r.InstanceID, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = "", nil, 10_000, 10_000
	}
	return req
}

// fill gives every field a value: an array has one element, a number is 1, a name belongs to a
// topic, a group or a setting.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" {
				fill(v.Field(i), f.Name)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() != reflect.Uint8 {
			fill(v.Index(0), name)
		}
	case reflect.String:
		v.SetString(seedName(name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if !strings.HasPrefix(name, "Partition") {
			v.SetInt(1)
		}
	}
}

func seedName(field string) string {
	switch {
	case strings.Contains(field, "Group"), strings.Contains(field, "Coordinator"):
		return "group"
	case strings.Contains(field, "Protocol"):
		return "consumer"
	case field == "Name", field == "Key":
		return "retention.ms"
	default:
		return "orders"
	}
}

func TestEverySeedIsDecodedAndAnswered(t *testing.T) {
	_, addr := serve(t, Config{Telemetry: Telemetry{Receive: func(TelemetryPush) {}}})
	createTopic(t, addr, "orders", 2)
	seeded := map[Key]int{}
	for _, req := range seedRequests() {
		seeded[Key(req.Key())]++
		c := dial(t, addr)
		require.NoError(t, c.nc.SetDeadline(time.Now().Add(20*time.Second)))
		switch r := req.(type) {
		case *kmsg.DeleteTopicsRequest: // the topic is needed by other requests
		case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest: // may wait for other members
			c.send(req)
		case *kmsg.ProduceRequest:
			if correlation := c.send(req); r.Acks != 0 {
				c.receive(req, correlation)
			}
		default:
			c.ask(req)
		}
		c.nc.Close()
	}
	for _, a := range apis {
		require.Equal(t, 2*int(a.max-a.min+1), seeded[a.key], a.key)
	}
}
