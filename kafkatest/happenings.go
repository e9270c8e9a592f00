package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
)

// happenings are the calls of the test and the events of the cluster, for the timeline of a failed
// test. Times are the brokers'.
type happenings struct {
	mu     sync.Mutex // guards the fields below; a leaf
	calls  ring[happening]
	events ring[happening]
	groups ring[group.Event]
}

// A happening is an instant or a period.
type happening struct {
	began, ended time.Time // ended is zero while it lasts
	what         string
	kind         string // happenings of one kind are one line of the text
	failed       bool   // it ended its goroutine
}

// A ring has the last items.
type ring[T any] struct {
	list    []T
	dropped int // the first one of list has this number
}

const maxHappenings = 1024

func (r *ring[T]) add(item T) (number int) {
	if len(r.list) == maxHappenings {
		half := maxHappenings / 2
		r.list = slices.Clone(r.list[half:])
		r.dropped += half
	}
	r.list = append(r.list, item)
	return r.dropped + len(r.list) - 1
}

// at returns an item by its number; nil if it is dropped.
func (r *ring[T]) at(number int) *T {
	if number < r.dropped {
		return nil
	}
	return &r.list[number-r.dropped]
}

// call records a call of the test. The result is called when the call ends; failed is true if it
// ends its goroutine.
func (h *happenings) call(began time.Time, what string) (end func(at time.Time, failed bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.calls.add(happening{began: began, what: what, kind: what})
	return func(at time.Time, failed bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c := h.calls.at(n); c != nil {
			c.ended, c.failed = at, failed
		}
	}
}

// follow records the events of a cluster and its groups from now on, on goroutines of wg, until the
// cluster is closed.
func (h *happenings) follow(wg *sync.WaitGroup, c *strata.Cluster) {
	events, groups := c.Backend().Cluster.Events(context.Background()), c.Backend().Coordinator.Events(context.Background())
	wg.Go(func() {
		for e := range groups {
			h.mu.Lock()
			h.groups.add(e)
			h.mu.Unlock()
		}
	})
	wg.Go(func() {
		for e := range events {
			h.mu.Lock()
			h.events.add(happening{began: e.Time, ended: e.Time, what: e.String(), kind: fmt.Sprint(e.Kind, e.Broker, e.Time.UnixMilli()/100)})
			h.mu.Unlock()
		}
	})
}

// all returns copies.
func (h *happenings) all() (calls, events []happening, groups []group.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls.list), slices.Clone(h.events.list), slices.Clone(h.groups.list)
}

// describe describes a fault as text.
func (f *Fault) describe() string {
	var s strings.Builder
	for i, key := range f.APIs {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(key.String())
	}
	if len(f.APIs) == 0 {
		s.WriteString("any request")
	}
	for _, part := range []struct {
		set  bool
		text string
	}{
		{f.Topic != "", " of topic " + f.Topic},
		{len(f.Partitions) > 0, fmt.Sprint(" of partitions ", f.Partitions)},
		{f.Group != "", " of group " + f.Group},
		{f.TransactionalID != "", " of transaction " + f.TransactionalID},
		{f.ClientID != "", fmt.Sprintf(" of client %q", f.ClientID)},
		{f.Broker != 0, fmt.Sprint(" to broker ", f.Broker)},
		{f.Match != nil, " that Match selects"},
	} {
		if part.set {
			s.WriteString(part.text)
		}
	}
	s.WriteString(": ")
	if f.Decide != nil {
		s.WriteString("as Decide returns")
	} else {
		s.WriteString(f.effect().describe())
	}
	if f.Skip > 0 {
		fmt.Fprintf(&s, ", after %d", f.Skip)
	}
	if n, limited := f.times(); !limited {
		s.WriteString(", always")
	} else if n > 1 {
		fmt.Fprintf(&s, ", %d times", n)
	}
	return s.String()
}

// describe describes an effect as text.
func (e *Effect) describe() string {
	var all []string
	for _, part := range []struct {
		set  bool
		text string
	}{
		{e.Delay > 0, fmt.Sprint("delayed by ", e.Delay)},
		{e.Hold, "held"},
		{e.Code != 0, e.Code.String()},
		{e.Respond != nil, "Respond"},
		{e.Edit != nil, "Edit"},
		{e.DropRequest, "the request is dropped"},
		{e.DropReply, "the response is dropped"},
		{e.Close, "the connection is cut"},
		{e.AfterApply, "after it was applied"},
		{e.Throttle > 0, fmt.Sprint("throttled by ", e.Throttle)},
	} {
		if part.set {
			all = append(all, part.text)
		}
	}
	return strings.Join(all, ", ")
}

// waits reports whether a broker may answer a request late because it waits for news.
func waits(key int16) bool {
	switch kafka.Key(key) {
	case kafka.Fetch, kafka.ShareFetch, kafka.JoinGroup, kafka.SyncGroup:
		return true
	}
	return false
}
