package kafkatest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/picture"
	"github.com/stratalog/strata/kafka"
)

// Timeline describes the test so far, in at most 40 lines: its calls, faults with the requests that
// they hit, each rebalance with its cause, the first failed response of each kind, and the events of
// the cluster. Times are the brokers', since the start of the server.
//
// A server whose test has failed logs its Timeline at the end. It also writes the file of
// WriteTimeline, if the environment variable KAFKATEST_ARTIFACTS has a directory, or with go test
// -artifacts: at most 20 files in one process. Config.NoTimeline turns both off.
func (s *Server) Timeline() string {
	return s.itself().timeline().text()
}

const (
	maxTimeline   = 40 // lines
	maxSummary    = 4  // of these, about requests that succeeded
	maxLineLength = 200

	maxSummaryKeys = 7
)

// A timeline is a copy of a server's records of its test.
type timeline struct {
	test          string // "": unknown
	began         time.Time
	calls, events []happening
	groups        []group.Event
	exchanges     []remembered // in the order of their requests
	total         int          // number of requests, also of ones that are not remembered
	nameOf        func([16]byte) string
}

func (s *Server) timeline() *timeline {
	t := &timeline{began: s.began, test: testName(s.t), nameOf: s.topicName}
	t.calls, t.events, t.groups = s.in.happened.all()
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	t.total = s.in.history.total
	for i := range s.in.history.ring {
		t.exchanges = append(t.exchanges, *s.in.history.at(i))
	}
	return t
}

func testName(t T) string {
	if named, ok := t.(interface{ Name() string }); ok {
		return named.Name()
	}
	return ""
}

// A moment is a line of the text.
type moment struct {
	at, last time.Time // of the first and the last one
	n        int
	text     string
	rank     int // lines of a higher one are left out first
}

const (
	rankFault = iota
	rankCall
	rankGroup
	rankError
	rankEvent
)

// text returns the lines of Timeline.
func (t *timeline) text() string {
	summary := t.summary()
	moments := leaveOut(t.moments(), maxTimeline-1-len(summary))
	var b strings.Builder
	fmt.Fprintf(&b, "what happened, in the brokers' time since the start; %d requests:\n", t.total)
	for _, m := range moments {
		line := m.text
		if m.n > 1 {
			line += fmt.Sprintf(" ×%d", m.n)
		}
		if last := t.since(m.last); last != t.since(m.at) {
			line += " until " + last
		}
		if m.at.IsZero() {
			fmt.Fprintf(&b, "  %9s  %s\n", "", line)
		} else {
			fmt.Fprintf(&b, "  %9s  %s\n", t.since(m.at), line)
		}
	}
	for _, line := range summary {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

func (t *timeline) since(at time.Time) string {
	d := at.Sub(t.began)
	if d < time.Second {
		return "+" + picture.Length(d)
	}
	return "+" + d.Round(time.Millisecond).String()
}

// moments returns all lines, in the order of their times. Equal calls that follow each other are one
// line, as are events of one kind in a tenth of a second, and requests of one kind wherever they
// are.
func (t *timeline) moments() []moment {
	byKind := map[string]*moment{}
	var all []*moment
	add := func(kind string, m moment) {
		if had := byKind[kind]; had != nil {
			had.n, had.last = had.n+1, m.at
			return
		}
		m.n, m.last = 1, m.at
		byKind[kind] = &m
		all = append(all, &m)
	}
	run := 0 // number of the sequence of equal calls
	for i, c := range t.calls {
		if i == 0 || t.calls[i-1].kind != c.kind || c.failed {
			run++
		}
		add(fmt.Sprint("call ", run), moment{at: c.began, text: shortened("the test: " + c.text()), rank: rankCall})
	}
	for _, e := range t.events {
		add("event "+e.kind, moment{at: e.began, text: shortened(e.what), rank: rankEvent})
	}
	for i, e := range t.groups {
		if t.ends(i) {
			add(fmt.Sprint("group ", i), moment{at: e.Time, text: shortened("group " + e.String()), rank: rankGroup})
		}
	}
	for i := range t.exchanges {
		if x := &t.exchanges[i]; x.isNoteworthy() && !x.isUsual() || leaves(x.Request) {
			text, rank := x.line(t.nameOf)
			add(text, moment{at: x.Received, text: shortened(text), rank: rank})
		}
	}
	slices.SortStableFunc(all, func(a, b *moment) int { return a.at.Compare(b.at) })
	moments := make([]moment, len(all))
	for i, m := range all {
		moments[i] = *m
	}
	return moments
}

// ends reports whether an event of a group ends a rebalance, or is the last one of a rebalance that
// has not ended.
func (t *timeline) ends(i int) bool {
	e := &t.groups[i]
	if e.Kind != group.Joining && e.Kind != group.Joined {
		return true
	}
	return !slices.ContainsFunc(t.groups[i+1:], func(later group.Event) bool { return later.Group == e.Group })
}

// text describes a call of the test.
func (h *happening) text() string {
	switch took := h.ended.Sub(h.began); {
	case h.failed:
		return fmt.Sprintf("%s, which failed after %s", h.what, picture.Length(took))
	case h.ended.IsZero():
		return h.what + ", which goes on"
	case took >= time.Millisecond:
		return fmt.Sprintf("%s, %s", h.what, picture.Length(took))
	}
	return h.what
}

// isUsual reports whether the code of the response belongs to each join of a group, and is no error.
func (x *remembered) isUsual() bool {
	codes := Codes(x.Response)
	return !x.disturbed && len(codes) == 1 && codes[0] == kafka.MemberIDRequired
}

// line describes a noteworthy exchange.
func (x *remembered) line(nameOf func([16]byte) string) (text string, rank int) {
	outcome := x.outcome()
	if codes, ok := strings.CutPrefix(outcome, "answered"); ok {
		outcome = cmp.Or(strings.TrimSpace(codes), "answered")
	}
	text = fmt.Sprintf("%q: %s%s: %s", x.ClientID, kafka.Key(x.Key), targetNames(x.Request, nameOf), outcome)
	switch {
	case len(x.faults) > 0:
		return fmt.Sprintf("%s (fault %s)", text, strings.Trim(fmt.Sprint(x.faults), "[]")), rankFault
	case x.disturbed:
		return text + " (Intercept)", rankFault
	case x.Response == nil || leaves(x.Request) || slices.Equal(Codes(x.Response), []kafka.Code{kafka.RebalanceInProgress}):
		return text, rankEvent // a client has closed its connection, or follows its group
	}
	return text, rankError
}

// leaves reports whether a client leaves its group with req.
func leaves(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.LeaveGroupRequest:
		return true
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return r.MemberEpoch < 0
	case *kmsg.ShareGroupHeartbeatRequest:
		return r.MemberEpoch < 0
	}
	return false
}

func shortened(line string) string {
	line = strings.ReplaceAll(line, "\n", " ")
	if r := []rune(line); len(r) > maxLineLength {
		return string(r[:maxLineLength-1]) + "…"
	}
	return line
}

// leaveOut returns at most n lines. Of the highest ranks those in the middle are left out: the
// cause is often among the first, and the end among the last. A line without a time has their
// number.
func leaveOut(all []moment, n int) []moment {
	for rank := rankEvent; rank >= rankFault && len(all) > n; rank-- {
		var of []int
		for i, m := range all {
			if m.rank == rank {
				of = append(of, i)
			}
		}
		out := min(len(of), len(all)-n+1)
		if out < 2 && len(of) < 2 {
			continue
		}
		first := (len(of) - out) / 2
		gone := of[first : first+out]
		kept := make([]moment, 0, n)
		for i, m := range all {
			switch {
			case i == gone[0]:
				kept = append(kept, moment{n: 1, text: fmt.Sprintf("(%d lines are left out)", out), rank: -1})
			case !slices.Contains(gone, i):
				kept = append(kept, m)
			}
		}
		all = kept
	}
	return all
}

// summary counts the requests of each client.
func (t *timeline) summary() (lines []string) {
	counts := map[string]map[kafka.Key]int{}
	for i := range t.exchanges {
		x := &t.exchanges[i]
		if counts[x.ClientID] == nil {
			counts[x.ClientID] = map[kafka.Key]int{}
		}
		counts[x.ClientID][kafka.Key(x.Key)]++
	}
	clients := slices.Sorted(maps.Keys(counts))
	for i, client := range clients {
		if i == maxSummary-1 && len(clients) > maxSummary {
			return append(lines, fmt.Sprintf("and %d other clients", len(clients)-i))
		}
		keys := slices.SortedFunc(maps.Keys(counts[client]), func(a, b kafka.Key) int {
			return cmp.Or(counts[client][b]-counts[client][a], int(a-b))
		})
		var parts []string
		for i, k := range keys {
			if i == maxSummaryKeys {
				parts = append(parts, fmt.Sprintf("and %d other APIs", len(keys)-i))
				break
			}
			parts = append(parts, fmt.Sprintf("%s ×%d", k, counts[client][k]))
		}
		lines = append(lines, shortened(fmt.Sprintf("%q sent %s", client, strings.Join(parts, ", "))))
	}
	return lines
}
