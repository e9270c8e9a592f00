package classic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/transcript"
	"github.com/stratalog/strata/record"
)

// TestTranscripts runs the scripts in testdata/*.txt. Lines that begin with "> " are events, and
// the lines behind an event are the effects on the group.
//
//	> config delay=3s max-size=2 retention=1h     before anything else
//	> join CLIENT [id=ID] [instance=I] [protocols=a,b] [session=10s] [rebalance=30s] [require-id]
//	  [skip] [type=consumer] [version=..]
//	> sync ID gen=N [instance=I] [protocol=P] [type=T] [assign=ID:share,ID:share]
//	> heartbeat ID gen=N [instance=I]
//	> leave ID... | leave instance=I
//	> commit [ID] [gen=N] topic-partition=offset... [retention=1h] [metadata=N]
//	> txn P/E [ID] [gen=N] topic-partition=offset...   a commit in the transaction of a producer id
//	  [instance=I]                                 and epoch
//	> end P commit|abort                           the marker of a producer's transaction
//	> +5s                                          time passes, ticks come when requested
//	> cancel TICKET, expire, delete, delete-offsets topic-partition...,
//	  reset [expel] topic-partition=offset..., shift N topic-partition=START..END, restart,
//	  topic-deleted TOPIC [id=N], topic-id N       of the topics that offsets are committed for
//	  refuse COMMAND...                          as COMMAND, but the log rejects its records
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t testing.TB, out *transcript.Output) func([]string) {
		s := &player{t: t, out: out, now: time.Unix(0, 0).UTC()}
		return s.command
	})
}

// A player takes the place of the runtime of one group.
type player struct {
	t       testing.TB
	out     *transcript.Output
	cfg     Config
	g       *Group
	now     time.Time
	wakeAt  time.Time
	ticket  machine.Ticket
	ids     int
	log     []logged
	topicID [16]byte
	refused bool // the log rejects every record
}

func (s *player) command(words []string) {
	name := words[0]
	pos, opts := transcript.Words(words[1:])
	if name == "config" {
		s.config(opts)
		return
	}
	if s.g == nil {
		s.cfg.OffsetMetadataMax = 4096
		s.g = New("g", &s.cfg)
	}
	if strings.HasPrefix(name, "+") {
		s.pass(s.duration(name[1:]))
		return
	}
	if name == "refuse" {
		s.refused = true
		s.command(words[1:])
		s.refused = false
		return
	}
	if name == "restart" {
		s.cfg.Process = InProcess + opts["process"]
		s.g = New("g", &s.cfg)
		for _, l := range s.log {
			l.apply(s.g)
		}
		s.step(EventLoaded{})
		s.out.Printf("%s", s.offsets())
		return
	}
	if name == "end" {
		l, before := logged{producer: int64(s.int(pos[0])), end: true, commit: pos[1] == "commit"}, s.describe()
		s.log = append(s.log, l)
		l.apply(s.g)
		s.out.Printf("%s", s.offsets())
		if after := s.describe(); after != before {
			s.out.Printf("%s", after)
		}
		return
	}
	if name == "topic-id" {
		s.topicID[0] = byte(s.int(pos[0]))
		return
	}
	s.ticket++
	if ev := s.event(name, pos, opts); ev != nil {
		s.step(ev)
	}
}

func (s *player) config(opts map[string]string) {
	for k, v := range opts {
		switch k {
		case "delay":
			s.cfg.InitialRebalanceDelay = s.duration(v)
		case "max-size":
			s.cfg.MaxSize = s.int(v)
		case "retention":
			s.cfg.OffsetsRetention = s.duration(v)
		default:
			s.t.Fatalf("unknown config %q", k)
		}
	}
}

// pass lets time pass. Ticks come exactly at the requested times.
func (s *player) pass(d time.Duration) {
	end := s.now.Add(d)
	for n := 0; !s.wakeAt.IsZero() && !s.wakeAt.After(end); n++ {
		require.Less(s.t, n, 1000, "ticks without end")
		if s.wakeAt.After(s.now) {
			s.now = s.wakeAt
		}
		s.step(EventTick{})
	}
	s.now = end
}

func (s *player) step(ev Event) {
	before := s.describe()
	eff := s.g.Step(s.now, ev)
	if s.refused && len(eff.Records) > 0 {
		s.g.Discard()
		s.out.Printf("refused")
		require.Equal(s.t, before, s.describe())
		return
	}
	at := ""
	if _, tick := ev.(EventTick); tick {
		at = fmt.Sprintf("at %v: ", s.now.Sub(time.Unix(0, 0)))
	}
	for _, r := range eff.Records {
		l, in := logged{record: r}, ""
		if eff.Producer != nil {
			l.producer, in = eff.Producer.ID, fmt.Sprintf("in %d/%d: ", eff.Producer.ID, eff.Producer.Epoch)
		}
		s.out.Printf("%swrite %s%s", at, in, formatRecord(r))
		s.log = append(s.log, l)
	}
	s.g.Accept()
	for _, r := range eff.Replies {
		s.out.Printf("%sreply %d: %s", at, r.To, formatReply(r))
	}
	if after := s.describe(); after != before {
		s.out.Printf("%s%s", at, after)
	}
	s.wakeAt = eff.WakeAt
}

func (s *player) describe() string {
	var members []string
	for _, m := range s.g.inOrder() {
		d := m.id
		if m.joining {
			d += " joins"
		}
		if m.syncing {
			d += " syncs"
		}
		members = append(members, d)
	}
	d := fmt.Sprintf("%v generation %d", s.g.State(), s.g.Generation())
	if len(members) > 0 {
		d += " of " + strings.Join(members, ", ") + "; leader " + s.g.leader
	}
	return d
}

// offsets formats the group's committed and pending offsets.
func (s *player) offsets() string {
	var all []string
	for _, tp := range s.g.named() {
		d := fmt.Sprintf("%s-%d", tp.Topic, tp.Partition)
		if v, ok := s.g.offsets[tp]; ok {
			d += fmt.Sprintf("=%d", v.Offset)
		}
		if s.g.Unstable(tp) {
			d += "?"
		}
		all = append(all, d)
	}
	return fmt.Sprintf("offsets: %s", strings.Join(all, " "))
}

// logged is a record in the log, or a marker.
type logged struct {
	record   offsets.Record
	producer int64 // producer of its transaction; 0: none
	end      bool  // it is a marker
	commit   bool
}

// apply applies l to g, as the runtime does at recovery.
func (l logged) apply(g *Group) {
	switch {
	case l.end:
		g.ApplyEnd(l.producer, l.commit)
	case l.producer != 0:
		g.ApplyPending(l.producer, l.record)
	default:
		g.Apply(l.record)
	}
}

func formatRecord(r offsets.Record) string {
	switch {
	case r.Key.Type == offsets.KeyOffset && r.Offset == nil:
		return fmt.Sprintf("%s-%d gone", r.Key.Topic, r.Key.Partition)
	case r.Key.Type == offsets.KeyOffset:
		return fmt.Sprintf("%s-%d=%d", r.Key.Topic, r.Key.Partition, r.Offset.Offset)
	case r.Group == nil:
		return "group gone"
	}
	var members []string
	for _, m := range r.Group.Members {
		d := fmt.Sprintf("%s:%s", m.ID, m.Assignment)
		if m.InstanceID != "" {
			d += "(" + m.InstanceID + ")"
		}
		members = append(members, d)
	}
	return fmt.Sprintf("group generation=%d protocol=%q leader=%q [%s]", r.Group.Generation, r.Group.Protocol, r.Group.Leader, strings.Join(members, " "))
}

func formatReply(r machine.Reply) string {
	if r.Err != nil {
		return "ERROR " + strings.TrimPrefix(strings.TrimPrefix(r.Err.Error(), "group: "), "coordinator: ")
	}
	switch v := r.Value.(type) {
	case protocol.JoinResponse:
		d := fmt.Sprintf("joined as %s, generation %d, %s, leader %s", v.MemberID, v.Generation, v.ProtocolName, v.Leader)
		for _, m := range v.Members {
			d += " +" + m.MemberID
		}
		if v.SkipAssignment {
			d += ", assignment stands"
		}
		return d
	case protocol.SyncResponse:
		return fmt.Sprintf("assigned %q", v.Assignment)
	case []error:
		return fmt.Sprint(v)
	case map[record.TopicPartition]error:
		var lines []string
		for tp, err := range v {
			lines = append(lines, fmt.Sprintf("%s-%d: %v", tp.Topic, tp.Partition, err))
		}
		slices.Sort(lines)
		return strings.Join(lines, ", ")
	case nil, record.Offsets:
		return "ok"
	}
	panic(errors.New("unknown reply"))
}

func (s *player) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	require.NoError(s.t, err)
	return d
}

func (s *player) int(v string) int {
	n, err := strconv.Atoi(v)
	require.NoError(s.t, err)
	return n
}

func (s *player) tp(v string) record.TopicPartition {
	topic, p, ok := strings.Cut(v, "-")
	require.True(s.t, ok, v)
	return record.TopicPartition{Topic: topic, Partition: int32(s.int(p))}
}
