// Package clientmetrics decides what clients are asked to push of their own metrics, and how often
// (KIP-714): the configuration of client-metrics resources, which of them match a client, and what
// is remembered of each client. It does no I/O, keeps no goroutines and no clock. Kafka:
// ClientMetricsConfigs, ClientMetricsManager.
package clientmetrics

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/javahash"
	"github.com/stratalog/strata/internal/re2"
)

// The keys of a client-metrics resource.
const (
	KeyInterval = "interval.ms" // how often clients push, 100 to 3600000
	KeyMatch    = "match"       // which clients: a list of NAME=EXPRESSION, all of which must match; none: all clients
	KeyMetrics  = "metrics"     // prefixes of the names of metrics, "*" for all; none: no metric
)

// DefaultInterval is how often clients push if nothing else is said.
const DefaultInterval = 5 * time.Minute

const (
	minInterval = 100     // ms
	maxInterval = 3600000 // ms
	allMetrics  = "*"

	// maxInstructions is how large the program of one expression may be.
	maxInstructions = 10_000
)

// The attributes of clients that match compares.
const (
	matchInstance = "client_instance_id"
	matchClient   = "client_id"
	matchSoftware = "client_software_name"
	matchVersion  = "client_software_version"
	matchAddress  = "client_source_address"
	matchPort     = "client_source_port"
)

var attributes = []string{matchInstance, matchClient, matchSoftware, matchVersion, matchAddress, matchPort}

// A RefusedError says why a configuration is not accepted, in Kafka's words.
type RefusedError struct {
	Config bool // Kafka's code is INVALID_CONFIG, not INVALID_REQUEST
	Text   string
}

func (r *RefusedError) Error() string { return r.Text }

func invalidRequest(format string, args ...any) error {
	return &RefusedError{Text: fmt.Sprintf(format, args...)}
}

func invalidConfig(format string, args ...any) error {
	return &RefusedError{Config: true, Text: fmt.Sprintf(format, args...)}
}

// A subscription is one client-metrics resource, parsed.
type subscription struct {
	metrics  []string // without duplicates
	interval time.Duration
	match    map[string]*regexp.Regexp // by attribute, of all of the value; empty: every client
}

// Validate refuses what cannot be set on a resource of that name. The error is a
// *RefusedError. Expressions are RE2's: one that only Java understands, or whose program is too
// large, is refused as one that cannot be parsed.
func Validate(name string, props map[string]string) error {
	_, err := parse(name, props)
	return err
}

func parse(name string, props map[string]string) (*subscription, error) {
	if name == "" {
		return nil, invalidRequest("Subscription name can't be empty")
	}
	var keys []string
	for key := range props {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range javahash.Order(keys, javahash.Table) {
		if key != KeyInterval && key != KeyMatch && key != KeyMetrics {
			return nil, invalidRequest("Unknown client metrics configuration: %s", key)
		}
	}
	metrics, err := parseList(KeyMetrics, props[KeyMetrics])
	if err != nil {
		return nil, err
	}
	s := &subscription{metrics: metrics, interval: DefaultInterval}
	value, timed := props[KeyInterval]
	interval := int64(0)
	if timed {
		if interval, err = strconv.ParseInt(trim(value), 10, 32); err != nil {
			return nil, invalidConfig("Invalid value %s for configuration %s: Not a number of type INT", value, KeyInterval)
		}
		s.interval = time.Duration(interval) * time.Millisecond
	}
	conditions, err := parseList(KeyMatch, props[KeyMatch])
	if err != nil {
		return nil, err
	}
	if timed && (interval < minInterval || interval > maxInterval) {
		return nil, invalidRequest("Invalid value %d for %s, interval must be between 100 and 3600000 (1 hour)", interval, KeyInterval)
	}
	s.match, err = parseMatch(conditions)
	return s, err
}

// Normal returns a value of a key as it is shown: numbers in their shortest form, lists without
// spaces around commas and without duplicates. What cannot be read is shown as it is.
func Normal(key, value string) string {
	if key == KeyInterval {
		if n, err := strconv.ParseInt(trim(value), 10, 32); err == nil {
			return strconv.FormatInt(n, 10)
		}
		return value
	}
	if list, err := parseList(key, value); err == nil {
		return strings.Join(list, ",")
	}
	return value
}

// trim takes away what Java's String.trim does.
func trim(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

var comma = regexp.MustCompile(`\s*,\s*`)

// parseList reads a list, in which only the first of equal values counts. Kafka: ConfigDef's type
// LIST.
func parseList(key, value string) ([]string, error) {
	if value = trim(value); value == "" {
		return nil, nil
	}
	var list []string
	for _, v := range comma.Split(value, -1) {
		if v == "" {
			return nil, invalidConfig("Configuration '%s' values must not be empty.", key)
		}
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list, nil
}

// parseMatch reads conditions. Of two on one attribute the last counts.
func parseMatch(conditions []string) (map[string]*regexp.Regexp, error) {
	match := make(map[string]*regexp.Regexp, len(conditions))
	for _, c := range conditions {
		// Java's split drops empty parts at the end.
		parts := strings.Split(strings.TrimRight(c, "="), "=")
		var re *regexp.Regexp
		if len(parts) == 2 && slices.Contains(attributes, trim(parts[0])) {
			re, _ = re2.Compile(trim(parts[1]), maxInstructions)
		}
		if re == nil {
			return nil, invalidConfig("Illegal client matching pattern: %s", c)
		}
		match[trim(parts[0])] = re
	}
	return match, nil
}
