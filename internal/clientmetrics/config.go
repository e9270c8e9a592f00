// Package clientmetrics computes the metrics that clients must push, and their interval (KIP-714).
// It has the configuration of client-metrics resources, their match with a client, and the state of
// each client. It has no I/O, goroutine or clock. Kafka: ClientMetricsConfigs,
// ClientMetricsManager.
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
	KeyInterval = "interval.ms" // interval between pushes, 100 to 3600000
	KeyMatch    = "match"       // list of NAME=EXPRESSION, all of which must match; empty matches all clients
	KeyMetrics  = "metrics"     // prefixes of the names of metrics, "*" for all; empty for none
)

// DefaultInterval is the default interval between pushes.
const DefaultInterval = 5 * time.Minute

const (
	minInterval = 100     // ms
	maxInterval = 3600000 // ms
	allMetrics  = "*"

	// maxInstructions bounds the program of one expression.
	maxInstructions = 10_000
)

// The attributes of clients for match.
const (
	matchInstance = "client_instance_id"
	matchClient   = "client_id"
	matchSoftware = "client_software_name"
	matchVersion  = "client_software_version"
	matchAddress  = "client_source_address"
	matchPort     = "client_source_port"
)

var attributes = []string{matchInstance, matchClient, matchSoftware, matchVersion, matchAddress, matchPort}

// A RefusedError is the reason to reject a configuration, with Kafka's text.
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

// A subscription is a parsed client-metrics resource.
type subscription struct {
	metrics  []string // without duplicates
	interval time.Duration
	match    map[string]*regexp.Regexp // by attribute, anchored at both ends; empty matches every client
}

// Validate checks the properties of a resource. The error is a *RefusedError. Expressions have the
// syntax of RE2: one in syntax of Java alone, or with too large a program, is rejected as
// malformed.
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

// Normal returns a value of a key in the form to show: numbers in their shortest form, lists
// without spaces around commas and without duplicates. A malformed value is returned as it is.
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

// trim removes the characters that Java's String.trim removes.
func trim(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

var comma = regexp.MustCompile(`\s*,\s*`)

// parseList parses a list, without later duplicates. Kafka: ConfigDef's type LIST.
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

// parseMatch parses conditions. Of several on one attribute the last counts.
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
