package clientmetrics

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/javahash"
)

// A Set is what client-metrics resources ask clients for. Immutable.
type Set struct {
	Version       int64 // of a later change it is higher
	subscriptions []*subscription
}

// NewSet returns what resources ask for, by name. fallback is what every client is asked for if
// there are none of them. A resource that cannot be read, as Validate says, is left out, and told
// to bad.
func NewSet(version int64, resources map[string]map[string]string, fallback Request, bad func(name string, err error)) *Set {
	set := &Set{Version: version}
	for _, name := range javahash.Order(slices.Sorted(maps.Keys(resources)), javahash.Table) {
		s, err := parse(name, resources[name])
		if err != nil {
			bad(name, err)
			continue
		}
		s.interval = min(s.interval, DefaultInterval) // as in Kafka, where the default is the most
		set.subscriptions = append(set.subscriptions, s)
	}
	if len(resources) == 0 {
		set.subscriptions = []*subscription{{metrics: fallback.Metrics, interval: fallback.Interval}}
	}
	return set
}

// A Request is what a client is asked to push.
type Request struct {
	Metrics  []string // prefixes of names; "*" or "": all
	Interval time.Duration
}

// An ID is what a client calls itself, drawn by the broker that it asks first.
type ID [16]byte

// String returns Kafka's text form, that of topic ids, too.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// A Client is what the broker knows of a client.
type Client struct {
	Instance          ID
	Conn              uint64 // the connection that it asks by
	ClientID          string
	Software, Version string
	Address, Port     string // "127.0.0.1", "50000"; empty: unknown
}

// matches reports whether all conditions hold.
func (c *Client) matches(conditions map[string]*regexp.Regexp) bool {
	for attribute, re := range conditions {
		var value string
		switch attribute {
		case matchInstance:
			value = c.Instance.String()
		case matchClient:
			value = c.ClientID
		case matchSoftware:
			value = c.Software
		case matchVersion:
			value = c.Version
		case matchAddress:
			value = c.Address
		case matchPort:
			value = c.Port
		}
		if !re.MatchString(value) {
			return false
		}
	}
	return true
}

// of returns what a client is asked for: the metrics of all subscriptions that match it, at the
// shortest of their intervals. The metrics are in Kafka's order.
func (s *Set) of(c *Client) Request {
	r, everything := Request{Interval: -1}, false
	seen := map[string]bool{}
	for _, sub := range s.subscriptions {
		if !c.matches(sub.match) {
			continue
		}
		if r.Interval < 0 || sub.interval < r.Interval {
			r.Interval = sub.interval
		}
		for _, m := range javahash.Order(sub.metrics, javahash.TableOf(len(sub.metrics))) {
			everything = everything || m == allMetrics
			if !seen[m] {
				r.Metrics, seen[m] = append(r.Metrics, m), true
			}
		}
	}
	if r.Interval < 0 {
		r.Interval = DefaultInterval
	}
	if everything {
		r.Metrics = []string{allMetrics}
	}
	r.Metrics = javahash.Order(r.Metrics, javahash.Table)
	return r
}

// id identifies what a client is asked for. Kafka: ClientMetricsManager.computeSubscriptionId.
func (r *Request) id(client ID) int32 {
	metrics := strings.Join(r.Metrics, ", ")
	if len(r.Metrics) == 1 && metrics == "" { // everything, which must not look like nothing
		metrics = allMetrics
	}
	text := fmt.Sprintf("[%s]%d", metrics, r.Interval.Milliseconds())
	return int32(crc32.Checksum([]byte(text), castagnoli)) ^ idHash(client)
}

// idHash is the hash code of Kafka's Uuid.
func idHash(id ID) int32 {
	x := binary.BigEndian.Uint64(id[:8]) ^ binary.BigEndian.Uint64(id[8:])
	return int32(x>>32) ^ int32(x)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
