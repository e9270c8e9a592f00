package replication

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/topic"
)

// end is one of the two of a path that records are copied on.
type end uint8

const (
	leading end = iota
	following
	ends
)

// throttledRate and throttledReplicas are the keys of throttles, the broker's and the topic's.
var (
	throttledRate     = [ends]string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
	throttledReplicas = [ends]string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)

var rateKeys = [ends]topic.Key{
	rateKey(leading, "How many bytes a second are copied, at most, from this broker by replicas that are not in sync. It is about the replicas in leader.replication.throttled.replicas of their topics."),
	rateKey(following, "How many bytes a second this broker copies, at most, to replicas of its own that are not in sync. It is about the replicas in follower.replication.throttled.replicas of their topics."),
}

func rateKey(e end, doc string) topic.Key {
	return topic.Key{Name: throttledRate[e], Type: topic.TypeLong, Default: strconv.FormatInt(unthrottled, 10), Valid: "[0,...]", Doc: doc}
}

// unthrottled is the rate of brokers that have none.
const unthrottled = math.MaxInt64

// LookupBrokerKey returns the key with the given name if AlterBrokerConfig can change it. Such a
// key is the broker's name for a topic's default (topic.LookupBrokerKey) or the rate of a throttle.
func LookupBrokerKey(name string) (topic.Key, bool) {
	if e := slices.Index(throttledRate[:], name); e >= 0 {
		return rateKeys[e], true
	}
	return topic.LookupBrokerKey(name)
}

// rates has the values of throttledRate, by broker; the value of AllBrokers is for brokers without
// one of their own.
type rates [ends]map[int32]int64

func (r *rates) of(e end, broker int32) int64 {
	for _, id := range [...]int32{broker, AllBrokers} {
		if rate, ok := r[e][id]; ok {
			return rate
		}
	}
	return unthrottled
}

// ratesOf returns the rates in the configurations of brokers, nil if there are none.
func ratesOf(configs map[string]map[string]string) *rates {
	var all *rates
	for resource, config := range configs {
		for e, key := range throttledRate {
			text, ok := config[key]
			rate, reason := parseRate(text)
			if !ok || reason != "" { // of a later version
				continue
			}
			if all == nil {
				all = &rates{{}, {}}
			}
			id := AllBrokers
			if n, err := strconv.ParseInt(resource, 10, 32); err == nil {
				id = int32(n)
			}
			all[e][id] = rate
		}
	}
	return all
}

// parseRate parses a rate; reason is why it is invalid.
func parseRate(text string) (rate int64, reason string) {
	rate, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	switch {
	case err != nil:
		return 0, "must be a 64-bit number"
	case rate < 0:
		return 0, "must be at least 0"
	}
	return rate, ""
}

// onlyRates returns the rates in a broker's configuration.
func onlyRates(config map[string]string) map[string]string {
	set := map[string]string{}
	for _, key := range throttledRate {
		if v, ok := config[key]; ok {
			set[key] = v
		}
	}
	return set
}

func isRate(key string) bool { return slices.Contains(throttledRate[:], key) }

// applyRate is apply of a rate.
func (ch ConfigChange) applyRate(set map[string]string) error {
	switch ch.Op {
	case UnsetConfig:
		delete(set, ch.Key)
		return nil
	case SetConfig:
		_, reason := parseRate(ch.Value)
		if reason != "" {
			return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason}
		}
		set[ch.Key] = ch.Value
		return nil
	}
	return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: "it is not a list"}
}
