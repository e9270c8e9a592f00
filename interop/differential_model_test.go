package interop

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A model is a script's view of the brokers' state, with Kafka's ids. It is detailed enough to
// make most requests nearly valid.
type model struct {
	prefix string // of every name
	topics []*topicModel
	// A classic group, a consumer group, a share group, a streams group.
	groups       []*groupModel
	streams      []*streamsMember // members of the streams group
	streaming    bool             // the script is mostly about the streams group
	txns         []*txnModel      // no producer, an idempotent producer, two transactional ids
	session      int32            // of fetches
	sessionEpoch int32
}

type topicModel struct {
	name string
	id   [16]byte
}

type groupModel struct {
	name, member   string
	epoch, session int32 // epoch: generation or member epoch; session: epoch of the share session
}

type txnModel struct {
	id       string
	producer int64
	epoch    int16
	sequence int32
}

func newModel(prefix string) *model {
	m := &model{prefix: prefix}
	for _, n := range []string{"g", "n", "s", "y"} {
		m.groups = append(m.groups, &groupModel{name: m.name(n)})
	}
	// Also their order in a hash table of Kafka's.
	m.streams = []*streamsMember{{id: "m1"}, {id: "m2"}}
	m.groups[streamsGroup].member = "m1"
	m.groups[1].member, m.groups[2].member = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB"
	for i, id := range []string{"", "", m.name("x1"), m.name("x2")} {
		m.txns = append(m.txns, &txnModel{id: id, producer: -1, epoch: -1})
		if i == 0 {
			m.txns[0].epoch = -1
		}
	}
	m.topics = []*topicModel{{name: m.name("t0")}, {name: m.name("t1")}, {name: m.name("gone")}}
	return m
}

func (m *model) name(of string) string { return m.prefix + "-" + of }

func (m *model) long(n int) string { return (m.prefix + strings.Repeat("x", n))[:n] }

// groupOf returns a group of the kind that an API mostly concerns.
func (m *model) groupOf(g *gen, key int16) *groupModel {
	kind := g.rng.IntN(3)
	if !g.wrong() {
		switch {
		case key >= 11 && key <= 14:
			kind = 0
		case key == 68 || key == 69:
			kind = 1
		case key >= 76 && key <= 79 || key >= 83 && key <= 87 || key >= 90:
			kind = 2
		case key == 88 || key == 89 || m.streaming && !g.one(6):
			kind = streamsGroup
		}
	}
	return m.groups[kind]
}

// learn updates the model from Kafka's answer.
func (m *model) learn(req kmsg.Request, resp kmsg.Response) {
	group := func(name string) *groupModel {
		for _, g := range m.groups {
			if g.name == name {
				return g
			}
		}
		return &groupModel{}
	}
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && !req.(*kmsg.CreateTopicsRequest).ValidateOnly {
				m.created(t.Topic, t.TopicID)
			}
		}
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && t.Topic != nil && r.Version >= 10 {
				m.created(*t.Topic, t.TopicID)
			}
		}
	case *kmsg.JoinGroupResponse:
		if g := group(req.(*kmsg.JoinGroupRequest).Group); r.MemberID != "" && (r.ErrorCode == 0 || r.ErrorCode == 79) {
			g.member, g.epoch = r.MemberID, max(r.Generation, 0)
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if g := group(req.(*kmsg.ConsumerGroupHeartbeatRequest).Group); r.ErrorCode == 0 && r.MemberID != nil {
			g.member, g.epoch = *r.MemberID, max(r.MemberEpoch, 0)
		}
	case *kmsg.ShareGroupHeartbeatResponse:
		if g := group(req.(*kmsg.ShareGroupHeartbeatRequest).GroupID); r.ErrorCode == 0 && r.MemberID != nil {
			g.member, g.epoch = *r.MemberID, max(r.MemberEpoch, 0)
		}
	case *kmsg.StreamsGroupHeartbeatResponse:
		m.learnStreams(req.(*kmsg.StreamsGroupHeartbeatRequest), r)
	case *kmsg.ShareFetchResponse:
		if q := req.(*kmsg.ShareFetchRequest); r.ErrorCode == 0 && q.GroupID != nil {
			group(*q.GroupID).session = q.ShareSessionEpoch + 1
		}
	case *kmsg.FetchResponse:
		if q := req.(*kmsg.FetchRequest); r.ErrorCode == 0 && r.SessionID != 0 {
			m.session, m.sessionEpoch = r.SessionID, max(q.SessionEpoch, 0)+1
		}
	case *kmsg.InitProducerIDResponse:
		q := req.(*kmsg.InitProducerIDRequest)
		for i, t := range m.txns {
			if r.ErrorCode == 0 && i > 0 && (q.TransactionalID == nil && i == 1 || q.TransactionalID != nil && *q.TransactionalID == t.id && i > 1) {
				t.producer, t.epoch, t.sequence = r.ProducerID, r.ProducerEpoch, 0
			}
		}
	case *kmsg.EndTxnResponse:
		for _, t := range m.txns[2:] {
			if r.ErrorCode == 0 && r.Version >= 5 && t.id == req.(*kmsg.EndTxnRequest).TransactionalID && r.ProducerID >= 0 {
				if t.producer != r.ProducerID || t.epoch != r.ProducerEpoch {
					t.producer, t.epoch, t.sequence = r.ProducerID, r.ProducerEpoch, 0
				}
			}
		}
	case *kmsg.ProduceResponse:
		m.produced(req.(*kmsg.ProduceRequest), r)
	}
}

func (m *model) created(name string, id [16]byte) {
	for _, t := range m.topics {
		if t.name == name {
			t.id = id
			return
		}
	}
	if len(m.topics) < 6 && strings.HasPrefix(name, m.prefix) && !strings.Contains(name, hidden) {
		m.topics = append(m.topics, &topicModel{name: name, id: id})
	}
}

func (m *model) produced(q *kmsg.ProduceRequest, r *kmsg.ProduceResponse) {
	for i, t := range r.Topics {
		for k, p := range t.Partitions {
			if p.ErrorCode != 0 || i >= len(q.Topics) || k >= len(q.Topics[i].Partitions) {
				continue
			}
			if b := q.Topics[i].Partitions[k].Records; len(b) > 61 {
				producer, count := int64(binary.BigEndian.Uint64(b[43:])), int32(binary.BigEndian.Uint32(b[57:]))
				for _, t := range m.txns {
					if t.producer == producer && producer >= 0 {
						t.sequence += count
					}
				}
			}
		}
	}
}

// A theme lists the APIs of a script. An API that is listed more often is likelier.
var themes = [][]int16{
	{0, 0, 0, 1, 1, 1, 2, 21, 23, 22, 61},                                // records
	{11, 11, 11, 14, 14, 14, 12, 13, 8, 9, 10, 15, 16, 42, 47},           // classic groups
	{68, 68, 68, 69, 8, 9, 16, 42, 47, 15, 11},                           // consumer groups
	{76, 76, 76, 78, 78, 78, 79, 77, 90, 91, 92, 0, 42, 16},              // share groups
	{83, 84, 85, 85, 86, 87},                                             // state of share groups
	{22, 22, 22, 24, 24, 25, 26, 26, 27, 28, 28, 0, 0, 65, 66, 61, 2, 1}, // transactions
	{19, 19, 20, 37, 3, 75, 45, 46, 43, 35, 60},                          // topics
	{32, 33, 44, 44, 74},                                                 // configurations
	{29, 30, 31, 48, 49, 50, 51, 38, 39, 40, 41},                         // entries, quotas, users
	{17, 36, 18, 55, 57, 60, 35, 74, 10},                                 // the broker itself
	{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61, 65, 66, 68, 69, 74, 75, 76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92},
}

// notServed maps APIs that Strata does not list in ApiVersions to the reason.
var notServed = map[int16]string{
	34: "there is one directory for a broker",
	64: "brokers are those that the cluster was opened with", 80: "no voters of KRaft", 81: "no voters of KRaft",
}

// tame limits requests to objects of the script itself, and waits to at most the script's own
// time.
func (g *gen) tame(req kmsg.Request) {
	internal := func(name string) bool { return strings.HasPrefix(name, "__") }
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		for i := range r.Topics {
			if !strings.HasPrefix(r.Topics[i].Topic, g.m.prefix) && strings.ReplaceAll(r.Topics[i].Topic, ".", "-") != r.Topics[i].Topic && len(r.Topics[i].Topic) > 2 {
				r.Topics[i].Topic = g.m.name("dots.and_lines")
			}
			if g.one(2) {
				r.Topics[i].Configs = nil
			}
			if len(r.Topics[i].ReplicaAssignment) > 0 && !g.one(4) {
				r.Topics[i].NumPartitions, r.Topics[i].ReplicationFactor = -1, -1
			}
		}
	case *kmsg.DeleteTopicsRequest:
		for i, n := range r.TopicNames {
			if internal(n) {
				r.TopicNames[i] = g.m.name("absent")
			}
		}
		for i, t := range r.Topics {
			if t.Topic != nil && internal(*t.Topic) {
				r.Topics[i].Topic = nil
			}
			if g.one(2) {
				r.Topics[i].TopicID = [16]byte{}
			} else if !g.one(6) {
				r.Topics[i].Topic = nil
			}
		}
	case *kmsg.CreatePartitionsRequest:
		for i, t := range r.Topics {
			if internal(t.Topic) {
				r.Topics[i].Topic = g.m.name("absent")
			}
			if !g.one(3) {
				r.Topics[i].Assignment = nil
			}
			if t.Count > 100 {
				// Kafka also creates thousands of partitions, which takes minutes.
				r.ValidateOnly = true
			}
		}
	case *kmsg.AlterConfigsRequest:
		for _, res := range r.Resources {
			if res.ResourceType == 4 || res.ResourceType == 8 || internal(res.ResourceName) || !strings.HasPrefix(res.ResourceName, g.m.prefix) {
				r.ValidateOnly = true
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, res := range r.Resources {
			if res.ResourceType == 4 || res.ResourceType == 8 || internal(res.ResourceName) || !strings.HasPrefix(res.ResourceName, g.m.prefix) {
				r.ValidateOnly = true
			}
		}
	case *kmsg.AlterClientQuotasRequest:
		for _, e := range r.Entries {
			for _, n := range e.Entity {
				if n.Name == nil || *n.Name == "" {
					r.ValidateOnly = true
				}
			}
		}
	case *kmsg.DeleteACLsRequest:
		for i := range r.Filters {
			if p := r.Filters[i].Principal; p == nil || !strings.Contains(*p, g.m.prefix) {
				r.Filters[i].Principal = ptr("User:" + g.m.prefix)
			}
		}
	case *kmsg.UpdateFeaturesRequest:
		r.ValidateOnly = true
		for i := range r.FeatureUpdates {
			if r.Version == 0 {
				r.FeatureUpdates[i].Feature = "what"
			}
		}
	case *kmsg.ProduceRequest:
		if g.txn.id != "" && r.TransactionID != nil && g.one(2) {
			r.Acks = -1
		}
	case *kmsg.StreamsGroupHeartbeatRequest:
		g.heartbeat(r)
	case *kmsg.OffsetCommitRequest:
		for i := range r.Topics {
			if r.Version >= 10 { // these versions have only ids
				r.Topics[i].Topic = ""
			}
		}
	case *kmsg.ApiVersionsRequest:
		r.ClusterID, r.NodeID = nil, -1
	}
}

// translate returns the request with Strata's ids in place of Kafka's.
func translate(req kmsg.Request, ids *correspondence) kmsg.Request {
	out := kmsg.RequestForKey(req.Key())
	out.SetVersion(req.GetVersion())
	v := reflect.ValueOf(out).Elem()
	v.Set(reflect.ValueOf(req).Elem())
	v.Set(translated("", v, ids))
	return out
}

// translated returns a copy of v. No part of it that contains an id is shared with v.
func translated(field string, v reflect.Value, ids *correspondence) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			if out.Field(i).CanSet() && v.Type().Field(i).Name != "UnknownTags" {
				out.Field(i).Set(translated(v.Type().Field(i).Name, v.Field(i), ids))
			}
		}
		return out
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if field == "Records" {
				return reflect.ValueOf(ids.batches(v.Bytes()))
			}
			return v
		}
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(translated(field, v.Index(i), ids))
		}
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(translated(field, v.Elem(), ids))
		return out
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch kind := kindOf(field); {
	case v.Kind() == reflect.String:
		out.SetString(ids.text(v.String()))
	case kind == "":
	case v.Kind() == reflect.Array:
		if ours, ok := ids.ours(kind, v.Interface()); ok {
			out.Set(reflect.ValueOf(ours))
		}
	case v.CanInt():
		if ours, ok := ids.ours(kind, v.Int()); ok {
			out.SetInt(ours.(int64))
		}
	}
	return out
}

// batches returns records with Strata's producer id in place of Kafka's.
func (c *correspondence) batches(b []byte) []byte {
	if len(b) <= 61 {
		return b
	}
	ours, ok := c.ours("producer", int64(binary.BigEndian.Uint64(b[43:])))
	if !ok {
		return b
	}
	size := int(binary.BigEndian.Uint32(b[8:])) + 12
	whole := slices.Clone(b)
	damaged := size > len(b) || size <= 61
	if !damaged {
		was := slices.Clone(b[:size])
		sum(was)
		damaged = !bytes.Equal(was, b[:size])
	}
	binary.BigEndian.PutUint64(whole[43:], uint64(ours.(int64)))
	if !damaged {
		sum(whole[:size])
	}
	if size > 61 && size < len(whole) {
		copy(whole[size:], c.batches(whole[size:]))
	}
	return whole
}

// newGen returns the generator of a step. Each step has random numbers of its own, so leaving one
// step out changes no other.
func newGen(seed uint64, step int, m *model) *gen {
	return &gen{rng: rand.New(rand.NewPCG(seed, uint64(step))), m: m}
}
