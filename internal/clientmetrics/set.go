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

// A Set is the subscriptions of all client-metrics resources. It is immutable.
type Set struct {
	Version       int64 // increases with every change
	subscriptions []*subscription
}

// NewSet parses resources, by name. Without any, every client gets fallback. A malformed resource,
// as by Validate, is left out and passed to bad.
func NewSet(version int64, resources map[string]map[string]string, fallback Request, bad func(name string, err error)) *Set {
	set := &Set{Version: version}
	for _, name := range javahash.Order(slices.Sorted(maps.Keys(resources)), javahash.Table) {
		s, err := parse(name, resources[name])
		if err != nil {
			bad(name, err)
			continue
		}
		s.interval = min(s.interval, DefaultInterval) // as in Kafka, where the default is also the maximum
		set.subscriptions = append(set.subscriptions, s)
	}
	if len(resources) == 0 {
		set.subscriptions = []*subscription{{metrics: fallback.Metrics, interval: fallback.Interval}}
	}
	return set
}

// A Request names the metrics that a client must push.
type Request struct {
	Metrics  []string // prefixes of names; "*" or "" for all
	Interval time.Duration
}

// An ID is a client instance id, drawn by the first broker that the client uses.
type ID [16]byte

// String returns Kafka's text form, as for topic ids.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// A Client is a broker's view of a client.
type Client struct {
	Instance          ID
	Conn              uint64 // the connection of the request
	ClientID          string
	Software, Version string
	Address, Port     string // "127.0.0.1", "50000"; empty if unknown
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

// of returns the request to a client: the metrics of all matching subscriptions, at the shortest of
// their intervals. The metrics are in Kafka's order.
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

// id returns the subscription id of a request. Kafka: ClientMetricsManager.computeSubscriptionId.
func (r *Request) id(client ID) int32 {
	metrics := strings.Join(r.Metrics, ", ")
	if len(r.Metrics) == 1 && metrics == "" { // everything, which must differ from nothing
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
