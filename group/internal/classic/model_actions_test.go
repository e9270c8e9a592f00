package classic

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

func (m *model) actions() map[string]func(*rapid.T) {
	instances := []string{"", "", "", "i1", "i2"}
	join := func(t *rapid.T, id, instance string) {
		if m.g.state == protocol.Dead {
			if id != "" {
				return
			}
			m.step(t, EventCreate{})
		}
		r := &protocol.JoinRequest{Group: "g", MemberID: id, InstanceID: instance, ClientID: "c", ProtocolType: "consumer",
			SessionTimeout:   time.Duration(rapid.IntRange(6, 20).Draw(t, "session")) * time.Second,
			RebalanceTimeout: time.Duration(rapid.IntRange(5, 60).Draw(t, "rebalance")) * time.Second,
			RequireMemberID:  rapid.Bool().Draw(t, "require"), SkipAssignment: rapid.Bool().Draw(t, "skip")}
		names := rapid.SampledFrom([][]string{{"range"}, {"range", "sticky"}, {"sticky", "range"}, {"sticky"}}).Draw(t, "protocols")
		for _, p := range names {
			r.Protocols = append(r.Protocols, assignor.Protocol{Name: p, Metadata: []byte{byte(rapid.IntRange(0, 1).Draw(t, "subscription"))}})
		}
		m.ids++
		m.step(t, EventJoin{r, fmt.Sprintf("m%d", m.ids), m.request()})
	}
	return map[string]func(*rapid.T){
		"join": func(t *rapid.T) { join(t, "", rapid.SampledFrom(instances).Draw(t, "instance")) },
		"rejoin": func(t *rapid.T) {
			if len(m.known)+len(m.g.members)+len(m.g.pending) > 0 {
				id, instance := m.anyID(t), ""
				if mem := m.g.members[id]; mem != nil && rapid.Bool().Draw(t, "named") {
					instance = mem.instanceID
				}
				join(t, id, instance)
			}
		},
		"everybody rejoins": func(t *rapid.T) {
			for _, mem := range m.g.inOrder() {
				if !mem.joining && m.g.state == protocol.PreparingRebalance && m.g.members[mem.id] != nil {
					join(t, mem.id, mem.instanceID)
				}
			}
		},
		"sync": func(t *rapid.T) {
			if len(m.g.members) > 0 {
				m.step(t, EventSync{&protocol.SyncRequest{MemberID: m.anyID(t), Generation: m.g.generation - int32(rapid.IntRange(0, 1).Draw(t, "old")), Assignments: m.assignments()}, m.request()})
			}
		},
		"leader syncs": func(t *rapid.T) {
			if m.g.state == protocol.CompletingRebalance {
				m.step(t, EventSync{&protocol.SyncRequest{MemberID: m.g.leader, Generation: m.g.generation, Assignments: m.assignments()}, m.request()})
			}
		},
		"heartbeat": func(t *rapid.T) {
			if len(m.g.members) > 0 {
				m.step(t, EventHeartbeat{&protocol.HeartbeatRequest{MemberID: m.anyID(t), Generation: m.g.generation}, m.request()})
			}
		},
		"leave": func(t *rapid.T) {
			if len(m.g.members) > 0 {
				m.step(t, EventLeave{[]protocol.LeaveMember{{MemberID: m.anyID(t)}, {InstanceID: "i1"}}, m.request()})
			}
		},
		"cancel": func(t *rapid.T) {
			if len(m.open) > 0 {
				ticket := rapid.SampledFrom(slices.Sorted(maps.Keys(m.open))).Draw(t, "ticket")
				delete(m.open, ticket)
				m.step(t, EventCancel{ticket})
			}
		},
		"commit": func(t *rapid.T) {
			id := ""
			generation := int32(-1)
			if len(m.g.members) > 0 && rapid.Bool().Draw(t, "member") {
				id, generation = m.anyID(t), m.g.generation-int32(rapid.IntRange(0, 1).Draw(t, "old"))
			}
			before := maps.Clone(m.g.offsets)
			tp := record.TopicPartition{Topic: "t", Partition: int32(rapid.IntRange(0, 2).Draw(t, "partition"))}
			current, generationNow := m.g.members[id], m.g.generation
			m.step(t, EventCommit{CommitRequest: &protocol.CommitRequest{MemberID: id, Generation: generation,
				Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: rapid.Int64Range(0, 100).Draw(t, "offset")}}}, To: m.request()})
			if len(m.g.members) > 0 && (current == nil || generation != generationNow) {
				require.Equal(t, before, m.g.offsets, "somebody who is no member of this generation moved an offset")
			}
		},
		"commit in a transaction": func(t *rapid.T) {
			id, generation := "", int32(-1)
			if len(m.g.members) > 0 && rapid.Bool().Draw(t, "member") {
				id, generation = m.anyID(t), m.g.generation-int32(rapid.IntRange(0, 1).Draw(t, "old"))
			}
			r := &protocol.TxnCommitRequest{ProducerID: rapid.Int64Range(1, 3).Draw(t, "producer"),
				CommitRequest: protocol.CommitRequest{MemberID: id, Generation: generation, Offsets: map[record.TopicPartition]record.Committed{}}}
			for range rapid.IntRange(1, 2).Draw(t, "partitions") {
				tp := record.TopicPartition{Topic: "t", Partition: int32(rapid.IntRange(0, 2).Draw(t, "partition"))}
				r.Offsets[tp] = record.Committed{Offset: rapid.Int64Range(0, 100).Draw(t, "offset")}
			}
			before := len(m.log)
			m.step(t, EventTxnCommit{TxnCommitRequest: r, To: m.request()})
			if m.g.members[id] == nil && id != "" || id != "" && generation != m.g.generation {
				require.Len(t, m.log, before, "somebody who is no member of this generation moved an offset")
			}
		},
		"end a transaction": func(t *rapid.T) {
			m.end(t, rapid.Int64Range(1, 3).Draw(t, "producer"), rapid.Bool().Draw(t, "commit"))
		},
		"delete offsets": func(t *rapid.T) {
			tp := record.TopicPartition{Topic: "t", Partition: int32(rapid.IntRange(0, 2).Draw(t, "partition"))}
			m.step(t, EventDeleteOffsets{Partitions: []record.TopicPartition{tp}, To: m.request()})
		},
		"delete the topic": func(t *rapid.T) { m.step(t, EventTopicDeleted{Topic: "t"}) },
		"time passes":      func(t *rapid.T) { m.pass(t, time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms"))*time.Millisecond) },
		"rewind": func(t *rapid.T) {
			to := record.Offsets{{Topic: "t"}: rapid.Int64Range(0, 100).Draw(t, "offset")}
			m.step(t, EventReset{Offsets: to, Expel: rapid.Bool().Draw(t, "expel"), To: m.request()})
		},
		"expire": func(t *rapid.T) { m.step(t, EventExpire{}) },
		"delete": func(t *rapid.T) { m.step(t, EventDelete{m.request()}) },
		"restart": func(t *rapid.T) {
			m.g = New("g", m.g.cfg)
			for _, l := range m.log {
				l.apply(m.g)
			}
			// a generation in which no member was assigned a partition may be used again
			m.open, m.generation = map[machine.Ticket]bool{}, m.g.generation
			maps.DeleteFunc(m.shares, func(key, _ string) bool {
				var generation int32
				fmt.Sscanf(key, "%d/", &generation)
				return generation > m.g.generation
			})
			m.step(t, EventLoaded{})
		},
	}
}
