package kafkatest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// HistorySize is the number of exchanges that a Server keeps. The oldest are dropped first.
const HistorySize = 4096

// A history is a ring of the last exchanges, in the order of their requests. Records are left out,
// to bound its memory: Server.Topic has them.
type history struct {
	ring  []remembered
	next  int // position of the next one when the ring is full
	total int
	open  map[*kafka.Exchange]int // positions of exchanges in progress
	byPos map[int]*kafka.Exchange // the reverse of open
}

// A remembered is an exchange in the ring.
type remembered struct {
	kafka.Exchange
	disturbed bool  // a fault or Config.Intercept affected it
	faults    []int // numbers of those that hit it
}

// begin adds an exchange whose request has arrived.
func (h *history) begin(x *kafka.Exchange) {
	if h.open == nil {
		h.open, h.byPos = map[*kafka.Exchange]int{}, map[int]*kafka.Exchange{}
	}
	pos := len(h.ring)
	if pos < HistorySize {
		h.ring = append(h.ring, remembered{})
	} else {
		pos = h.next
		h.next = (h.next + 1) % HistorySize
		if old := h.byPos[pos]; old != nil { // still in progress, and dropped now
			delete(h.open, old)
		}
	}
	h.total++
	h.ring[pos] = remembered{Exchange: *x}
	h.ring[pos].Request = withoutRecords(x.Request)
	h.open[x], h.byPos[pos] = pos, x
}

// disturb marks a request that a fault or Config.Intercept affects.
func (h *history) disturb(x *kafka.Exchange, hits []hit) {
	if pos, ok := h.open[x]; ok {
		h.ring[pos].disturbed = true
		for _, by := range hits {
			h.ring[pos].faults = append(h.ring[pos].faults, by.number)
		}
	}
}

// end records the response of an exchange, or that there is none.
func (h *history) end(x *kafka.Exchange) {
	pos, ok := h.open[x]
	if !ok {
		return
	}
	delete(h.open, x)
	delete(h.byPos, pos)
	h.ring[pos].Answered = x.Answered
	if x.Response != nil {
		h.ring[pos].Response = responseWithoutRecords(x.Response)
	}
}

// all returns a copy of the exchanges, oldest first.
func (h *history) all() []kafka.Exchange {
	all := make([]kafka.Exchange, len(h.ring))
	for i := range all {
		all[i] = h.at(i).Exchange
	}
	return all
}

// at returns an exchange of the ring; 0 is the oldest.
func (h *history) at(i int) *remembered {
	return &h.ring[(h.next+i)%len(h.ring)]
}

// withoutRecords returns req, or for a produce request a copy without records.
func withoutRecords(req kmsg.Request) kmsg.Request {
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return req
	}
	bare := *produce
	bare.Topics = append([]kmsg.ProduceRequestTopic(nil), bare.Topics...)
	for i := range bare.Topics {
		t := &bare.Topics[i]
		t.Partitions = append([]kmsg.ProduceRequestTopicPartition(nil), t.Partitions...)
		for j := range t.Partitions {
			t.Partitions[j].Records = nil
		}
	}
	return &bare
}

func responseWithoutRecords(resp kmsg.Response) kmsg.Response {
	fetch, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return resp
	}
	bare := *fetch
	bare.Topics = append([]kmsg.FetchResponseTopic(nil), bare.Topics...)
	for i := range bare.Topics {
		t := &bare.Topics[i]
		t.Partitions = append([]kmsg.FetchResponseTopicPartition(nil), t.Partitions...)
		for j := range t.Partitions {
			t.Partitions[j].RecordBatches = nil
		}
	}
	return &bare
}

// outcome returns the result of an exchange as text, without times.
func (x *remembered) outcome() string {
	switch {
	case x.Answered.IsZero():
		return "in progress"
	case x.Response == nil:
		return "no answer"
	}
	return "answered" + codesOf(x.Response)
}

// isNoteworthy reports whether an exchange may explain a failed wait: it failed, or a fault
// affected it.
func (x *remembered) isNoteworthy() bool {
	return x.disturbed || !x.Answered.IsZero() && (x.Response == nil || len(Codes(x.Response)) > 0)
}

// A kindOf has the common values of exchanges that dump shows as one line.
type kindOf struct {
	broker         int32
	client         string
	key, version   int16
	names, outcome string
	disturbed      bool
}

// alike are exchanges of one kind.
type alike struct {
	last       *remembered
	first      time.Time // arrival of the first one
	n          int
	kind       kindOf
	noteworthy bool
}

// dump describes exchanges for the message of a failed wait: failed exchanges, exchanges that a
// fault affected, and the last n kinds of the others. Exchanges of one kind are one line, at the
// place of the last one, so that long polls do not hide the response that matters.
func (h *history) dump(n int, now time.Time, nameOf func([16]byte) string) string {
	kinds := map[kindOf]*alike{}
	var lines []*alike // by the last exchange, latest first
	for i := len(h.ring) - 1; i >= 0; i-- {
		x := h.at(i)
		kind := kindOf{x.Broker, x.ClientID, x.Key, x.Version, targetNames(x.Request, nameOf), x.outcome(), x.disturbed}
		a := kinds[kind]
		if a == nil {
			a = &alike{last: x, kind: kind, noteworthy: x.isNoteworthy()}
			kinds[kind], lines = a, append(lines, a)
		}
		a.first, a.n = x.Received, a.n+1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests so far", h.total)
	if h.total > len(h.ring) {
		fmt.Fprintf(&b, ", %d of them remembered", len(h.ring))
	}
	left := map[bool]int{true: mostNoteworthy, false: n} // by noteworthy
	shown := lines[:0]
	for _, a := range lines {
		if left[a.noteworthy]--; left[a.noteworthy] >= 0 {
			shown = append(shown, a)
		}
	}
	if out := len(lines) - len(shown); out > 0 {
		fmt.Fprintf(&b, ", %d kinds of earlier ones left out", out)
	}
	b.WriteString(":\n")
	for _, a := range slices.Backward(shown) {
		x := a.last
		fmt.Fprintf(&b, "  %8s ago  broker %d conn %d %-12q %s v%d%s  ", now.Sub(x.Received).Round(time.Millisecond), x.Broker, x.Conn, x.ClientID, kafka.Key(x.Key), x.Version, a.kind.names)
		if codes, ok := strings.CutPrefix(a.kind.outcome, "answered"); ok {
			fmt.Fprintf(&b, "answered after %s%s", x.Answered.Sub(x.Received).Round(time.Millisecond), codes)
		} else {
			b.WriteString(a.kind.outcome)
		}
		if x.disturbed {
			b.WriteString(" (hit by a fault)")
		}
		if a.n > 1 {
			fmt.Fprintf(&b, ", and %d alike since %s ago", a.n-1, now.Sub(a.first).Round(time.Millisecond))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// mostNoteworthy bounds the lines of failed and disturbed exchanges: a client may send failing
// requests with ever new names.
const mostNoteworthy = 100

// targetNames returns the names of the first targets of req. nameOf returns the name of a topic id,
// "" if it is unknown.
func targetNames(req kmsg.Request, nameOf func([16]byte) string) string {
	const most = 4
	var b strings.Builder
	for i, t := range targets(req) {
		if i == most {
			b.WriteString(" ...")
			break
		}
		if t.group != "" {
			fmt.Fprintf(&b, " group %q", t.group)
		}
		if t.txn != "" {
			fmt.Fprintf(&b, " transaction %q", t.txn)
		}
		name := t.topic
		if name == "" && t.id != [16]byte{} {
			name = nameOf(t.id)
		}
		switch {
		case name != "":
			fmt.Fprintf(&b, " topic %q", name)
		case t.id != [16]byte{}:
			fmt.Fprintf(&b, " topic %x", t.id)
		}
		if t.partition >= 0 {
			fmt.Fprintf(&b, "-%d", t.partition)
		}
	}
	return b.String()
}
