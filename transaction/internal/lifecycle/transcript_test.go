package lifecycle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/transcript"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// TestTranscripts runs the scripts in testdata/*.txt. Lines that begin with "> " are events, and
// the lines behind an event are the effects of the machine. P/E is a producer id and epoch. Unused
// producer ids are given from 100 on, when the machine requests one.
//
//	> config [version=2] [max=15m] [expiration=168h]   may come again
//	> init [P/E] [timeout=60s] [no-id]
//	> add P/E [PARTITION...] [v1] [wait=100ms]   by a client before version 2 with v1
//	> verify P/E PARTITION...
//	> commit P/E [v1] [no-id]; abort P/E [v1] [no-id]
//	> ended [wait=100ms]                   requests whether it has ended, and waits
//	> marked [old] [PARTITION...]          by default all of them; old: of the markers before
//	> +5s [no-id]                          time passes, ticks come when requested
//	> expire, restart
//	> epoch N                              a log reports that epoch of the producer
//	> refuse COMMAND...                    as COMMAND, but the log rejects its record
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t testing.TB, out *transcript.Output) func([]string) {
		s := &player{t: t, out: out, now: time.Unix(0, 0).UTC(), ids: 100, cfg: Config{Version: 2, MaxTimeout: 15 * time.Minute, Expiration: 7 * 24 * time.Hour}}
		s.m = New("x", &s.cfg)
		return s.command
	})
}

// A player takes the place of the runtime of one transactional id, and of its owner.
type player struct {
	t       testing.TB
	out     *transcript.Output
	cfg     Config
	m       *Machine
	now     time.Time
	wakeAt  time.Time
	ticket  machine.Ticket
	ids     int64
	markers []*Markers
	log     []txnlog.Record
	refused bool // the log rejects every record

	deferred []deferredEvent

	noID bool // no producer id is available
}

func (s *player) command(words []string) {
	name := words[0]
	pos, opts := transcript.Words(words[1:])
	if i := slices.Index(pos, "no-id"); i >= 0 {
		pos, s.noID = slices.Delete(pos, i, i+1), true
		defer func() { s.noID = false }()
	}
	switch {
	case strings.HasPrefix(name, "+"):
		s.pass(s.duration(name[1:]))
	case name == "config":
		s.config(opts)
	case name == "refuse":
		s.refused = true
		s.command(words[1:])
		s.refused = false
	case name == "restart":
		s.m = New("x", &s.cfg)
		for _, r := range s.log {
			key, value := txnlog.AppendKey(nil, r.ID), []byte(nil)
			if r.Value != nil {
				value = r.Value.AppendTo(nil, s.cfg.Version)
			}
			r, _, err := txnlog.ParseRecord(key, value)
			require.NoError(s.t, err)
			s.m.Apply(r)
		}
		s.step(EventLoaded{})
	case name == "epoch":
		v := *s.m.Value()
		v.Epoch = int16(s.int(pos[0]))
		s.log = append(s.log, txnlog.Record{ID: "x", Value: &v})
		s.m.Apply(s.log[len(s.log)-1])
	default:
		s.ticket++
		s.event(name, pos, opts)
	}
}

func (s *player) event(name string, pos []string, opts map[string]string) {
	version := int16(2)
	if i := slices.Index(pos, "v1"); i >= 0 {
		pos, version = slices.Delete(pos, i, i+1), 0
	}
	switch name {
	case "init":
		ev := EventInit{Timeout: time.Minute, ProducerID: -1, Epoch: -1, To: s.ticket}
		if v, ok := opts["timeout"]; ok {
			ev.Timeout = s.duration(v)
		}
		if len(pos) > 0 {
			ev.ProducerID, ev.Epoch = s.producer(pos[0])
		}
		s.stepWithID(func(id *int64) Event { ev.NewID = id; return ev })
	case "add":
		ev := EventAdd{Version: version, To: s.ticket, Partitions: s.partitions(pos[1:])}
		ev.ProducerID, ev.Epoch = s.producer(pos[0])
		if v, ok := opts["wait"]; ok {
			ev.Until = s.now.Add(s.duration(v))
		}
		s.step(ev)
	case "verify":
		ev := EventVerify{To: s.ticket, Partitions: s.partitions(pos[1:])}
		ev.ProducerID, ev.Epoch = s.producer(pos[0])
		s.step(ev)
	case "commit", "abort":
		ev := EventEnd{Commit: name == "commit", Version: version, To: s.ticket}
		ev.ProducerID, ev.Epoch = s.producer(pos[0])
		s.stepWithID(func(id *int64) Event { ev.NewID = id; return ev })
	case "ended":
		ev := EventAwaitEnd{To: s.ticket}
		if v, ok := opts["wait"]; ok {
			ev.Until = s.now.Add(s.duration(v))
		}
		s.step(ev)
	case "marked":
		s.marked(pos)
	case "expire":
		s.step(EventExpire{})
	case "cancel":
		s.step(EventCancel{s.ticket})
	default:
		s.t.Fatalf("unknown event %q", name)
	}
}

// stepWithID steps as an owner does: with a new producer id when the machine requests one.
func (s *player) stepWithID(event func(id *int64) Event) {
	if s.step(event(nil)) || s.noID {
		return
	}
	id := s.ids
	s.ids++
	s.step(event(&id))
}

func (s *player) marked(pos []string) {
	require.NotEmpty(s.t, s.markers)
	k := s.markers[len(s.markers)-1]
	if len(pos) > 0 && pos[0] == "old" {
		k, pos = s.markers[len(s.markers)-2], pos[1:]
	}
	ev := EventMarked{Markers: k, Partitions: s.partitions(pos), To: s.ticket}
	if len(pos) == 0 {
		ev.Partitions = k.Partitions
	}
	s.step(ev)
}

func (s *player) config(opts map[string]string) {
	for k, v := range opts {
		switch k {
		case "version":
			s.cfg.Version = int16(s.int(v))
		case "max":
			s.cfg.MaxTimeout = s.duration(v)
		case "expiration":
			s.cfg.Expiration = s.duration(v)
		default:
			s.t.Fatalf("unknown config %q", k)
		}
	}
}

func (s *player) pass(d time.Duration) {
	end := s.now.Add(d)
	for n := 0; !s.wakeAt.IsZero() && !s.wakeAt.After(end); n++ {
		require.Less(s.t, n, 1000, "ticks without end")
		s.feedDeferred(s.wakeAt)
		if s.wakeAt.After(s.now) {
			s.now = s.wakeAt
		}
		s.step(EventTick{})
	}
	s.feedDeferred(end)
	s.now = end
}

// A deferredEvent is an event that the machine has not answered yet.
type deferredEvent struct {
	Event
	until time.Time
}

// feedDeferred feeds the events again whose wait ends at then or earlier.
func (s *player) feedDeferred(then time.Time) {
	waiting := s.deferred
	s.deferred = nil
	for _, d := range waiting {
		if d.until.After(then) {
			s.deferred = append(s.deferred, d)
			continue
		}
		if d.until.After(s.now) {
			s.now = d.until
		}
		s.step(d.Event)
	}
}

// step steps the machine and prints the effects. It returns false if a producer id is needed.
func (s *player) step(ev Event) bool {
	before := s.m.Value()
	eff := s.m.Step(s.now, ev)
	if s.refused && len(eff.Records) > 0 {
		s.m.Discard()
		s.out.Printf("refused")
		require.Equal(s.t, before, s.m.Value())
		return true
	}
	at := ""
	if _, tick := ev.(EventTick); tick {
		at = fmt.Sprintf("at %v: ", s.now.Sub(time.Unix(0, 0)))
	}
	for _, r := range eff.Records {
		s.out.Printf("%swrite %s", at, formatRecord(r))
		s.log = append(s.log, r)
	}
	s.m.Accept()
	s.wakeAt = eff.WakeAt
	enough := true
	for _, r := range eff.Replies {
		if !r.Later.IsZero() {
			s.deferred = append(s.deferred, deferredEvent{ev, r.Later})
			s.out.Printf("%sdefer %d", at, r.To)
			continue
		}
		if r.Err == ErrNoProducerID && !s.noID {
			enough = false
			continue
		}
		s.out.Printf("%sreply %d: %s", at, r.To, formatReply(r))
	}
	if k, ok := eff.Committed.(*Markers); ok {
		s.markers = append(s.markers, k)
		s.out.Printf("%smark %s", at, formatMarkers(k))
	}
	if _, ok := eff.Notice.(NeedsProducerID); ok {
		s.out.Printf("%sneeds a producer id", at)
		if !s.noID {
			id := s.ids
			s.ids++
			s.step(EventTick{NewID: &id})
		}
	}
	if eff.Lingers {
		s.out.Printf("%slinger", at)
	}
	if len(eff.Records) > 0 { // as a runtime does, at once
		waiting := s.deferred
		s.deferred = nil
		for _, d := range waiting {
			s.step(d.Event)
		}
	}
	return enough
}

func formatRecord(r txnlog.Record) string {
	v := r.Value
	if v == nil {
		return "gone"
	}
	d := fmt.Sprintf("%v %d/%d", v.State, v.ProducerID, v.Epoch)
	if v.LastEpoch >= 0 {
		d += fmt.Sprintf(" last=%d", v.LastEpoch)
	}
	if v.PreviousID != v.ProducerID {
		d += fmt.Sprintf(" previous=%d", v.PreviousID)
	}
	if v.NextID >= 0 {
		d += fmt.Sprintf(" next=%d", v.NextID)
	}
	if v.StartMs >= 0 {
		d += fmt.Sprintf(" since %v", time.Duration(v.StartMs)*time.Millisecond)
	}
	if len(v.Partitions) > 0 {
		d += " " + formatPartitions(v.Partitions)
	}
	return d
}

func formatMarkers(k *Markers) string {
	kind := "ABORT"
	if k.Commit {
		kind = "COMMIT"
	}
	return fmt.Sprintf("%s %d/%d version %d %s", kind, k.ProducerID, k.Epoch, k.Version, formatPartitions(k.Partitions))
}

func formatPartitions(tps []record.TopicPartition) string {
	var words []string
	for _, tp := range tps {
		words = append(words, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
	}
	return "[" + strings.Join(words, " ") + "]"
}

func formatReply(r machine.Reply) string {
	if r.Err != nil {
		return "ERROR " + strings.TrimPrefix(r.Err.Error(), "transaction: ")
	}
	switch v := r.Value.(type) {
	case Producer:
		return fmt.Sprintf("%d/%d", v.ID, v.Epoch)
	case []error:
		return fmt.Sprint(v)
	}
	return "ok"
}

func (s *player) producer(v string) (int64, int16) {
	id, epoch, ok := strings.Cut(v, "/")
	require.True(s.t, ok, v)
	return int64(s.int(id)), int16(s.int(epoch))
}

func (s *player) partitions(words []string) (tps []record.TopicPartition) {
	for _, w := range words {
		topic, p, ok := strings.Cut(w, "-")
		require.True(s.t, ok, w)
		tps = append(tps, record.TopicPartition{Topic: topic, Partition: int32(s.int(p))})
	}
	return tps
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
