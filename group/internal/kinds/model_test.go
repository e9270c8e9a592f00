package kinds

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/compacted"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/record"
)

// A phase is the next step of a client of the classic protocol.
type phase uint8

const (
	toJoin  phase = iota // with a ticket: it waits for the answer
	toSync               // likewise
	working              // it has its assignment
)

// A client is a consumer of either protocol, with its own view of its membership.
type client struct {
	modern       bool
	id, instance string
	epoch        int32 // or generation
	owned        map[record.TopicPartition]bool
	assigned     map[record.TopicPartition]bool // the part of owned that it keeps
	phase        phase
	ticket       machine.Ticket // of the request whose answer it waits for; 0: none
	leads        []assignor.JoinMember
	fresh        bool // its next heartbeat is a full one
}

type world struct {
	t           require.TestingT
	cfg         *Config
	g           *Group
	now         time.Time
	cooperative bool
	topics      map[string]modern.Topic
	clients     []*client
	waits       map[machine.Ticket]func(machine.Reply)
	log         []offsets.Record
	committed   map[record.TopicPartition]int64
	ids         int
	tickets     machine.Ticket
}

func newWorld(t require.TestingT, clients int, cooperative bool) *world {
	w := &world{t: t, now: time.UnixMilli(1_000_000), cooperative: cooperative, waits: map[machine.Ticket]func(machine.Reply){}, committed: map[record.TopicPartition]int64{},
		topics: map[string]modern.Topic{"a": {ID: [16]byte{1}, Partitions: 4}, "b": {ID: [16]byte{2}, Partitions: 3}}}
	w.cfg = &Config{Classic: classic.Config{Limits: classic.Limits{OffsetMetadataMax: 100}}}
	w.cfg.Modern = modern.Config{Assignors: []assignor.Assignor{assignor.Uniform()}, Limits: classic.Limits{OffsetMetadataMax: 100}, Migration: modern.Migration{Upgrade: true, Downgrade: true},
		Timeouts: func(string) modern.Timeouts {
			return modern.Timeouts{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Assignment: time.Second}
		}}
	w.g = New("g", w.cfg)
	for i := range clients {
		c := &client{modern: i%2 == 0}
		if i%3 != 2 {
			c.instance = fmt.Sprint("i", i)
		}
		w.forget(c)
		w.clients = append(w.clients, c)
	}
	return w
}

// forget clears the state of a client that is no longer a member, or that is a new process.
func (w *world) forget(c *client) {
	c.id, c.epoch, c.phase, c.ticket, c.fresh = "", 0, toJoin, 0, true
	c.owned, c.assigned = map[record.TopicPartition]bool{}, map[record.TopicPartition]bool{}
	if c.modern {
		w.ids++
		c.id = fmt.Sprintf("m%03d", w.ids)
	}
}

func (w *world) snapshot() *modern.Topics { return modern.NewTopics(1, w.topics) }

// ask steps the group with the event of a new ticket, and calls then with the answer.
func (w *world) ask(c *client, event func(machine.Ticket) Event, then func(machine.Reply)) {
	w.tickets++
	ticket := w.tickets
	c.ticket = ticket
	w.waits[ticket] = func(r machine.Reply) {
		if c.ticket == ticket { // otherwise it has left meanwhile
			c.ticket = 0
			then(r)
		}
	}
	w.step(event(ticket))
}

func (w *world) step(ev Event) {
	kind := w.g.Type()
	first := w.g.Step(w.now, ev)
	w.g.Discard()
	eff := w.g.Step(w.now, ev)
	require.Equal(w.t, len(first.Records), len(eff.Records), "%T left something behind", ev)
	w.g.Accept()
	w.log = append(w.log, eff.Records...)
	// the models of the kinds check it after each step
	if w.g.Type() != kind || len(eff.Records) > 0 && len(w.log)%8 == 0 {
		w.checkCompacted()
	}
	for _, r := range eff.Replies {
		if then := w.waits[r.To]; then != nil {
			delete(w.waits, r.To)
			then(r)
		}
	}
	w.check()
}

// check checks that no two clients that are members in their current epoch own the same partition.
func (w *world) check() {
	owner := map[record.TopicPartition]string{}
	current := map[string]int32{}
	switch k := w.g.Kind().(type) {
	case *modern.Group:
		for _, m := range k.Describe().Members {
			current[m.ID] = m.Epoch
		}
	case classicKind:
		for _, m := range k.View().Members {
			current[m.ID] = k.Generation()
		}
	}
	for _, c := range w.clients {
		epoch, member := current[c.id]
		if !member || epoch == -2 || !c.modern && epoch != c.epoch || c.modern && c.epoch == 0 {
			continue
		}
		for tp := range c.owned {
			require.Empty(w.t, owner[tp], "%v is with two members, one of which is %s", tp, c.id)
			owner[tp] = c.id
		}
	}
}

// act makes a client take its next step. If slow is set, it keeps revoked partitions for now.
func (w *world) act(c *client, slow bool) {
	switch {
	case c.modern:
		w.beat(c, slow)
	case c.ticket != 0:
	case c.phase == toJoin:
		w.join(c)
	case c.phase == toSync:
		w.sync(c, slow)
	default:
		w.ask(c, func(t machine.Ticket) Event {
			return classic.EventHeartbeat{HeartbeatRequest: &protocol.HeartbeatRequest{Group: "g", MemberID: c.id, InstanceID: c.instance, Generation: c.epoch}, To: t}
		}, func(r machine.Reply) { w.heard(c, r.Err) })
	}
}

// heard is the reaction of a client of the classic protocol to an error.
func (w *world) heard(c *client, err error) {
	switch {
	case err == nil:
	case errors.Is(err, protocol.ErrRebalanceInProgress):
		c.phase = toJoin
	case errors.Is(err, protocol.ErrIllegalGeneration):
		c.phase, c.epoch = toJoin, -1
		clear(c.owned)
		clear(c.assigned)
	case errors.Is(err, protocol.ErrUnknownMember), errors.Is(err, protocol.ErrFencedInstance):
		w.forget(c)
	default:
		require.NoError(w.t, err)
	}
}

func (w *world) join(c *client) {
	name := "range"
	sub := assignor.Subscription{Topics: []string{"a", "b"}, Generation: c.epoch}
	if w.cooperative {
		name = "cooperative"
		c.owned = maps.Clone(c.assigned)
		sub.Owned = slices.Collect(maps.Keys(c.owned))
	} else {
		clear(c.owned)
	}
	r := &protocol.JoinRequest{Group: "g", MemberID: c.id, InstanceID: c.instance, ClientHost: "/h", ProtocolType: "consumer", SessionTimeout: 20 * time.Second,
		RebalanceTimeout: 30 * time.Second, Protocols: []assignor.Protocol{{Name: name, Metadata: sub.AppendTo(nil)}}}
	if c.id != "" && w.g.State() == protocol.Dead {
		w.forget(c)
		return
	}
	anew := w.g.Type() == protocol.Consumer && w.g.Vacant()
	if w.g.Type() == protocol.Classic && w.g.State() == protocol.Dead || anew {
		w.step(classic.EventCreate{Anew: anew})
	}
	w.ids++
	id := fmt.Sprintf("c%03d", w.ids)
	w.ask(c, func(t machine.Ticket) Event {
		if w.g.Type() == protocol.Consumer {
			return modern.EventJoin{JoinRequest: r, NewID: id, Topics: w.snapshot(), To: t}
		}
		return classic.EventJoin{JoinRequest: r, NewID: id, To: t}
	}, func(ans machine.Reply) {
		if ans.Err != nil {
			w.heard(c, ans.Err)
			return
		}
		resp := ans.Value.(protocol.JoinResponse)
		c.id, c.epoch, c.phase, c.leads = resp.MemberID, resp.Generation, toSync, nil
		if resp.Leader == c.id {
			c.leads = resp.Members
		}
	})
}

func (w *world) sync(c *client, slow bool) {
	r := &protocol.SyncRequest{Group: "g", MemberID: c.id, InstanceID: c.instance, Generation: c.epoch, Assignments: w.assign(c.leads)}
	w.ask(c, func(t machine.Ticket) Event {
		if w.g.Type() == protocol.Consumer && !w.g.Vacant() {
			return modern.EventSync{SyncRequest: r, Topics: w.snapshot(), To: t}
		}
		return classic.EventSync{SyncRequest: r, To: t}
	}, func(ans machine.Reply) {
		if ans.Err != nil {
			w.heard(c, ans.Err)
			return
		}
		a, err := assignor.ParseAssignment(ans.Value.(protocol.SyncResponse).Assignment)
		require.NoError(w.t, err)
		clear(c.assigned)
		for _, tp := range a.Partitions {
			c.assigned[tp] = true
		}
		c.phase = working
		for tp := range c.owned {
			if !c.assigned[tp] {
				c.phase = toJoin
			}
		}
		if !slow {
			clear(c.owned)
		}
		maps.Copy(c.owned, c.assigned)
	})
}

// assign assigns the partitions round robin, as a group leader does. In the cooperative protocol a
// partition that another member owns is left out for now.
func (w *world) assign(members []assignor.JoinMember) map[string][]byte {
	shares, owner := map[string][]record.TopicPartition{}, map[record.TopicPartition]string{}
	for _, m := range members {
		sub, err := assignor.ParseSubscription(m.Metadata)
		require.NoError(w.t, err)
		for _, tp := range sub.Owned {
			owner[tp] = m.MemberID
		}
		shares[m.MemberID] = nil
	}
	ids, i := slices.Sorted(maps.Keys(shares)), 0
	for _, name := range []string{"a", "b"} {
		for p := range w.topics[name].Partitions {
			if len(ids) == 0 {
				return nil
			}
			tp, id := record.TopicPartition{Topic: name, Partition: p}, ids[i%len(ids)]
			if i++; owner[tp] == "" || owner[tp] == id {
				shares[id] = append(shares[id], tp)
			}
		}
	}
	out := map[string][]byte{}
	for id, tps := range shares {
		out[id] = assignor.Assignment{Partitions: tps}.AppendTo(nil)
	}
	return out
}

// byID and names translate between topics' ids and names.
func (w *world) byID(tps map[record.TopicPartition]bool) []offsets.TopicIDPartitions {
	out := []offsets.TopicIDPartitions{}
	for tp := range tps {
		out = append(out, offsets.TopicIDPartitions{TopicID: w.topics[tp.Topic].ID, Partitions: []int32{tp.Partition}})
	}
	return out
}

func (w *world) names(ts []offsets.TopicIDPartitions) map[record.TopicPartition]bool {
	out := map[record.TopicPartition]bool{}
	for _, t := range ts {
		name, ok := w.snapshot().Name(t.TopicID)
		require.True(w.t, ok)
		for _, p := range t.Partitions {
			out[record.TopicPartition{Topic: name, Partition: p}] = true
		}
	}
	return out
}

func (w *world) beat(c *client, slow bool) {
	r := &protocol.ConsumerHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: c.epoch, InstanceID: c.instance, ClientHost: "/h", RebalanceTimeout: -1, Owned: w.byID(c.owned)}
	if c.epoch == 0 {
		clear(c.owned)
		r.Owned = []offsets.TopicIDPartitions{}
	}
	if c.fresh {
		r.RebalanceTimeout, r.SubscribedTopics = 30*time.Second, []string{"a", "b"}
	}
	w.ask(c, func(t machine.Ticket) Event {
		return modern.EventHeartbeat{ConsumerHeartbeatRequest: r, Topics: w.snapshot(), To: t}
	}, func(ans machine.Reply) {
		switch {
		case ans.Err == nil:
		case errors.Is(ans.Err, protocol.ErrFencedMemberEpoch):
			c.epoch, c.fresh = 0, true
			clear(c.owned)
			return
		case errors.Is(ans.Err, protocol.ErrUnreleasedInstance):
			return
		case errors.Is(ans.Err, protocol.ErrUnknownMember), errors.Is(ans.Err, protocol.ErrFencedInstance), errors.Is(ans.Err, protocol.ErrGroupNotFound):
			w.forget(c)
			return
		default:
			require.NoError(w.t, ans.Err)
		}
		resp := ans.Value.(protocol.ConsumerHeartbeatResponse)
		c.epoch, c.fresh = resp.MemberEpoch, false
		if resp.Assignment != nil {
			c.assigned = w.names(resp.Assignment)
		}
		if !slow {
			clear(c.owned)
		}
		maps.Copy(c.owned, c.assigned)
	})
}

// leave makes a client leave. If forGood is not set, a static member only leaves temporarily.
func (w *world) leave(c *client, forGood bool) {
	switch {
	case c.id == "" || c.epoch == 0:
	case c.modern && (forGood || c.instance != ""):
		epoch := int32(-1)
		if !forGood {
			epoch = -2
		}
		w.step(modern.EventHeartbeat{ConsumerHeartbeatRequest: &protocol.ConsumerHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: epoch, InstanceID: c.instance, RebalanceTimeout: -1}, Topics: w.snapshot()})
	case forGood:
		w.step(classic.EventLeave{Members: []protocol.LeaveMember{{MemberID: c.id, InstanceID: c.instance}}})
	}
	w.forget(c)
}

// commit stores an offset as a member.
func (w *world) commit(c *client, offset int64) {
	tp := record.TopicPartition{Topic: "a"}
	ids := map[string][16]byte{"a": w.topics["a"].ID}
	r := &protocol.CommitRequest{Group: "g", MemberID: c.id, InstanceID: c.instance, Generation: c.epoch, Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: offset}}}
	waits := c.ticket
	w.ask(c, func(t machine.Ticket) Event { return classic.EventCommit{CommitRequest: r, TopicIDs: ids, To: t} }, func(ans machine.Reply) {
		if ans.Err == nil && ans.Value.(map[record.TopicPartition]error)[tp] == nil {
			w.committed[tp] = offset
		}
	})
	c.ticket = waits
	require.Equal(w.t, len(w.committed), len(w.g.Offsets()))
	for tp, offset := range w.committed {
		require.Equal(w.t, offset, w.g.Offsets()[tp].Offset, "a committed offset is lost")
	}
}

// checkCompacted compares a group that is loaded from the whole log with groups that are loaded
// from the compacted log.
func (w *world) checkCompacted() {
	log := compacted.Entries(w.log)
	whole := New("g", w.cfg)
	compacted.Load(whole, log)
	// the whole log, and a part
	for _, end := range []int{len(log), len(log) * (len(log) % 7) / 7} {
		for _, purged := range []bool{false, true} {
			re := New("g", w.cfg)
			compacted.Load(re, compacted.Log(log, end, purged))
			require.Equal(w.t, whole.View(), re.View(), "%d of %d records are compacted, purged=%v", end, len(log), purged)
			require.Equal(w.t, whole.Offsets(), re.Offsets())
			if k, ok := whole.Kind().(*modern.Group); ok {
				require.Equal(w.t, k.Describe(), re.Kind().(*modern.Group).Describe())
			}
		}
	}
}

// reload replaces the group by one of a new coordinator, which has only the log. Open requests get
// no answer.
func (w *world) reload() {
	before, state := w.g.View(), w.g.State()
	w.g = New("g", w.cfg)
	for _, r := range w.log {
		var value []byte
		if !r.Tombstone() {
			value = r.AppendValue(nil)
		}
		read, known, err := offsets.ParseRecord(r.Key.AppendTo(nil), value)
		require.NoError(w.t, err)
		require.True(w.t, known)
		w.g.Apply(read.Clone())
	}
	require.Equal(w.t, before.Type, w.g.Type())
	live := map[offsets.Key]bool{}
	for _, r := range w.log {
		if live[r.Key] = true; r.Tombstone() {
			delete(live, r.Key)
		}
	}
	for k := range live { // the records that compaction leaves are of the group's kind
		kind := typeOf(k.Type)
		require.True(w.t, kind == "" || kind == w.g.Type(), "%v is left of a %s group", k, kind)
	}
	if before.Type == protocol.Consumer || state == protocol.Stable {
		require.Len(w.t, w.g.View().Members, len(before.Members))
	}
	clear(w.waits)
	for _, c := range w.clients {
		c.ticket = 0
		if c.phase == toSync {
			c.phase = toJoin
		}
	}
	w.step(classic.EventLoaded{})
}

func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.step(classic.EventTick{})
}

// settle lets all clients act until every partition has an owner.
func (w *world) settle() {
	for round := 0; ; round++ {
		require.Less(w.t, round, 100, "the group does not come to rest: %v %v", w.g.Type(), w.g.State())
		w.tick(1500 * time.Millisecond)
		for _, c := range w.clients {
			w.act(c, false)
		}
		owned, rest := 0, true
		for _, c := range w.clients {
			owned += len(c.owned)
			rest = rest && c.ticket == 0 && (c.modern || c.phase == working)
		}
		if round > 3 && rest && owned == 7 && w.g.State() == protocol.Stable && w.g.Size() == len(w.clients) {
			break
		}
	}
	some := slices.ContainsFunc(w.clients, func(c *client) bool { return c.modern })
	require.True(w.t, !some || w.g.Type() == protocol.Consumer, "a member of the newer protocol is in a classic group")
}

// Members of both protocols join, leave, hang, and restart with the other protocol, with and
// without an instance id, while the coordinator moves.
func TestMembersOfBothProtocolsNeverShareAPartition(t *testing.T) {
	sample.Rapid(t)
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue && !sample.Hurried() {
		// defects of some twins take more than two thousand checks to show
		require.NoError(t, f.Value.Set("6000"))
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 5).Draw(t, "clients"), rapid.Bool().Draw(t, "cooperative"))
		pick := func() *client { return rapid.SampledFrom(w.clients).Draw(t, "client") }
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0, 1, 2, 3, 4, 5:
				w.act(pick(), false)
			case 6:
				w.act(pick(), true)
			case 7:
				w.tick(time.Duration(rapid.SampledFrom([]int{100, 1000, 5000, 21000, 31000, 46000}).Draw(t, "ms")) * time.Millisecond)
			case 8:
				w.leave(pick(), true)
			// a static member leaves temporarily; others hang, and a new process takes their place
			case 9:
				c := pick()
				w.leave(c, false)
				c.modern = rapid.Bool().Draw(t, "modern")
				w.forget(c)
			case 10:
				w.commit(pick(), rapid.Int64Range(0, 1000).Draw(t, "offset"))
			case 11:
				w.reload()
			case 12:
				for _, c := range w.clients { // an upgrade or downgrade of all, one after the other
					w.act(c, false)
				}
			}
		}
		w.settle()
		w.reload()
		w.settle()
	})
}
