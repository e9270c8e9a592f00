package kafkatest

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// HistorySize is how many exchanges a Server remembers; the oldest are forgotten first.
const HistorySize = 4096

// A history is a ring of the last exchanges, in the order in which their requests came. Records are
// left out of it, so that it does not hold what was produced and fetched: Server.Topic has them.
type history struct {
	ring  []kafka.Exchange
	next  int // where the next one goes once the ring is full
	total int
	open  map[*kafka.Exchange]int // exchanges without an answer, and their places
	byPos map[int]*kafka.Exchange // the reverse
}

// begin adds an exchange whose request has come.
func (h *history) begin(x *kafka.Exchange) {
	if h.open == nil {
		h.open, h.byPos = map[*kafka.Exchange]int{}, map[int]*kafka.Exchange{}
	}
	pos := len(h.ring)
	if pos < HistorySize {
		h.ring = append(h.ring, kafka.Exchange{})
	} else {
		pos = h.next
		h.next = (h.next + 1) % HistorySize
		if old := h.byPos[pos]; old != nil { // never answered and now forgotten
			delete(h.open, old)
		}
	}
	h.total++
	h.ring[pos] = *x
	h.ring[pos].Request = withoutRecords(x.Request)
	h.open[x], h.byPos[pos] = pos, x
}

// end notes the answer of an exchange, or that there is none.
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

// all returns a copy of the ring, oldest first.
func (h *history) all() []kafka.Exchange {
	if len(h.ring) < HistorySize {
		return append([]kafka.Exchange(nil), h.ring...)
	}
	return append(append(make([]kafka.Exchange, 0, HistorySize), h.ring[h.next:]...), h.ring[:h.next]...)
}

// withoutRecords returns req, or a copy of it that holds no records.
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

// dump describes the last n exchanges for a message about a wait that was in vain.
func (h *history) dump(n int, now time.Time) string {
	var b strings.Builder
	xs := h.all()
	fmt.Fprintf(&b, "%d requests so far", h.total)
	if len(xs) > n {
		xs = xs[len(xs)-n:]
		fmt.Fprintf(&b, ", the last %d", n)
	}
	b.WriteString(":\n")
	for _, x := range xs {
		fmt.Fprintf(&b, "  %8s ago  broker %d conn %d %-12q %s v%d%s", now.Sub(x.Received).Round(time.Millisecond), x.Broker, x.Conn, x.ClientID, kafka.Key(x.Key), x.Version, targetNames(x.Request))
		switch {
		case x.Answered.IsZero():
			b.WriteString("  in progress")
		case x.Response == nil:
			b.WriteString("  no answer")
		default:
			fmt.Fprintf(&b, "  answered after %s%s", x.Answered.Sub(x.Received).Round(time.Millisecond), codesOf(x.Response))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// targetNames names what req asks about, a few of it.
func targetNames(req kmsg.Request) string {
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
		switch {
		case t.topic == "" && t.id != [16]byte{}:
			fmt.Fprintf(&b, " topic %x", t.id)
		case t.topic != "":
			fmt.Fprintf(&b, " topic %q", t.topic)
		}
		if t.partition >= 0 {
			fmt.Fprintf(&b, "-%d", t.partition)
		}
	}
	return b.String()
}
