package clientmetrics

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someone = Client{Instance: ID{1, 2, 3, 4, 5, 6, 7, 8, 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18}, Conn: 1,
	ClientID: "web-1", Software: "apache-kafka-java", Version: "4.3.0", Address: "127.0.0.1", Port: "99"}

var began = time.Unix(1_000_000, 0)

func set(t *testing.T, version int64, resources ...map[string]string) *Set {
	t.Helper()
	named := map[string]map[string]string{}
	for _, r := range resources {
		named[r["name"]] = map[string]string{}
		for k, v := range r {
			if k != "name" {
				named[r["name"]][k] = v
			}
		}
	}
	return NewSet(version, named, Request{}, func(name string, err error) { require.NoError(t, err, name) })
}

// The metrics of a subscription and its id agree with Kafka 4.3's ClientMetricsManager for the
// same client.
func TestSubscriptionsAreKafkas(t *testing.T) {
	for _, tt := range []struct {
		resources []map[string]string
		id        int32
		interval  time.Duration
		metrics   string
	}{
		{[]map[string]string{{"name": "s", "metrics": "*"}}, 2081804259, DefaultInterval, "*"},
		{[]map[string]string{{"name": "s", "metrics": ""}}, -1803052258, DefaultInterval, ""},
		{[]map[string]string{{"name": "slow", "metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.", "interval.ms": "30000", "match": "client_id=web.*"}},
			1608803684, 30 * time.Second, "org.apache.kafka.producer. org.apache.kafka.consumer."},
		{[]map[string]string{{"name": "a", "metrics": "b,a,c", "interval.ms": "1000"}, {"name": "b", "metrics": "zz,c,org.x"}},
			-751563519, time.Second, "zz a b c org.x"},
		{[]map[string]string{
			{"name": "a", "metrics": "b,a", "interval.ms": "1000"}, {"name": "b", "metrics": "*,q", "match": "client_source_port=99"},
			{"name": "c", "metrics": "*,q", "match": "client_id=nobody"},
		}, 1925935737, time.Second, "*"},
		{[]map[string]string{
			{"name": "a", "metrics": "m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15"}, {"name": "zeta", "metrics": "Aa,BB,AaAa,BBBB"},
			{"name": "eta", "metrics": "BB,Aa,org.apache.kafka.consumer.fetch.latency"},
		}, 1224386542, DefaultInterval, "Aa BB m1 m2 m3 org.apache.kafka.consumer.fetch.latency m4 m5 m6 m7 m8 m9 m11 m10 m13 m12 m15 m14 AaAa BBBB"},
		// the default is the longest interval
		{[]map[string]string{{"name": "rare", "metrics": "a", "interval.ms": "3600000"}}, 0, DefaultInterval, "a"},
		{[]map[string]string{{"name": "s", "metrics": "a", "match": "client_id=web"}}, -1803052258, DefaultInterval, ""},
	} {
		sub, err := new(Manager).Subscribe(began, someone, set(t, 1, tt.resources...))
		require.NoError(t, err)
		require.Equal(t, tt.metrics, strings.Join(sub.Metrics, " "))
		require.Equal(t, tt.interval, sub.Interval)
		if tt.id != 0 {
			require.Equal(t, tt.id, sub.ID, tt.metrics)
		}
	}
}

// A resource applies to a client if all its conditions match, each the whole of its attribute.
func TestClientsAreMatchedByTheirAttributes(t *testing.T) {
	for match, wanted := range map[string]bool{
		"":                               true,
		"client_id=web-1":                true,
		"client_id=web":                  false,
		"client_id=eb-1":                 false,
		"client_id=we|web-1":             true,
		" client_id = web-[0-9]+ ":       true,
		"client_id=x,client_id=web.":     false, // the last condition counts, and is too short
		"client_id=x, client_id=web-\\d": true,
		"client_instance_id=AQIDBAUGBwihssPU5fYHGA":                true,
		"client_instance_id=AQIDBAUGBwihssPU5fYHGB":                false,
		"client_software_name=apache-kafka-java":                   true,
		"client_software_version=4\\..*":                           true,
		"client_software_version=3\\..*":                           false,
		"client_source_address=127\\.0\\.0\\.1":                    true,
		"client_source_address=10\\..*":                            false,
		"client_source_port=99,client_id=.*":                       true,
		"client_source_port=9,client_id=.*":                        false,
		"client_software_name=apache.*,client_software_version=4=": false,
		// nothing follows the second equals sign
		"client_software_name=apache.*,client_software_version=4.*=": true,
	} {
		sub, err := new(Manager).Subscribe(began, someone, set(t, 1, map[string]string{"name": "a", "metrics": "m", "match": match}))
		require.NoError(t, err)
		require.Equal(t, wanted, len(sub.Metrics) == 1, match)
	}
}

// While no resource is configured, every client gets the fallback. The id of the fallback differs
// from the id of an empty subscription.
func TestFallbackCountsWhileNothingIsConfigured(t *testing.T) {
	m := new(Manager)
	sub, err := m.Subscribe(began, someone, NewSet(1, nil, Request{[]string{""}, time.Hour}, nil))
	require.NoError(t, err)
	require.Equal(t, Request{[]string{""}, time.Hour}, sub.Request)
	everything := sub.ID
	sub, err = m.Subscribe(began, someone, NewSet(2, nil, Request{[]string{""}, DefaultInterval}, nil))
	require.NoError(t, err)
	require.NotEqual(t, everything, sub.ID)
	everything = sub.ID
	nobody := map[string]map[string]string{"a": {"metrics": "x", "match": "client_id=nobody"}}
	sub, err = m.Subscribe(began, someone, NewSet(3, nobody, Request{[]string{""}, DefaultInterval}, nil))
	require.NoError(t, err)
	require.Empty(t, sub.Metrics)
	require.NotEqual(t, everything, sub.ID)
}

// The texts and codes are Kafka 4.3's.
func TestConfigurationsAreRefusedAsInKafka(t *testing.T) {
	const bad, wrong = true, false // INVALID_CONFIG, INVALID_REQUEST
	for _, tt := range []struct {
		name, key, value string
		config           bool
		text             string
	}{
		{"", "metrics", "x", wrong, "Subscription name can't be empty"},
		{"a", "nope", "1", wrong, "Unknown client metrics configuration: nope"},
		{"a", "interval.ms", "k", bad, "Invalid value k for configuration interval.ms: Not a number of type INT"},
		{"a", "interval.ms", "99999999999", bad, "Invalid value 99999999999 for configuration interval.ms: Not a number of type INT"},
		{"a", "interval.ms", "", bad, "Invalid value  for configuration interval.ms: Not a number of type INT"},
		{"a", "interval.ms", "99", wrong, "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{"a", "interval.ms", "3600001", wrong, "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{"a", "match", "client_id", bad, "Illegal client matching pattern: client_id"},
		{"a", "match", "client_id= ", bad, "Illegal client matching pattern: client_id="},
		{"a", "match", "client_id=a=b", bad, "Illegal client matching pattern: client_id=a=b"},
		{"a", "match", "x=y", bad, "Illegal client matching pattern: x=y"},
		{"a", "match", "client_id=(", bad, "Illegal client matching pattern: client_id=("},
		{"a", "match", "client_id=a)|(b", bad, "Illegal client matching pattern: client_id=a)|(b"},
		{"a", "match", ",client_id=a", bad, "Configuration 'match' values must not be empty."},
		{"a", "metrics", ",", bad, "Configuration 'metrics' values must not be empty."},
	} {
		var refused *RefusedError
		require.ErrorAs(t, Validate(tt.name, map[string]string{tt.key: tt.value}), &refused, tt.value)
		require.Equal(t, RefusedError{tt.config, tt.text}, *refused)
	}
	for _, ok := range []map[string]string{
		{}, {"interval.ms": " 200 "}, {"interval.ms": "+300"}, {"interval.ms": "100"}, {"interval.ms": "3600000"}, {"match": "client_id=a="},
		{"match": " client_id = x , client_source_port=9,client_id=y"}, {"match": ""}, {"metrics": ""}, {"metrics": "x, y,x"}, {"metrics": "*"},
	} {
		require.NoError(t, Validate("a", ok), ok)
	}
	require.Equal(t, "200", Normal(KeyInterval, " 200 "))
	require.Equal(t, "client_id = x,client_source_port=9", Normal(KeyMatch, " client_id = x , client_source_port=9"))
	require.Equal(t, "x,y", Normal(KeyMetrics, "x, y,x"))
}

// A few bytes of repetitions would make a program of megabytes.
func TestExpressionsAreBounded(t *testing.T) {
	require.NoError(t, Validate("a", map[string]string{"match": "client_id=(web|batch)-[0-9]{20}"}))
	for _, large := range []string{"(abcdefghijklmnop){1000}", strings.Repeat("abcde", 4000)} {
		require.Error(t, Validate("a", map[string]string{"match": "client_id=" + large}))
	}
}

// The answers agree with Kafka 4.3's ClientMetricsManager for the same requests.
func TestClientsAreHeldToTheirInterval(t *testing.T) {
	m, now := new(Manager), began
	asked := set(t, 1, map[string]string{"name": "s", "metrics": "*", "interval.ms": "1000"})
	get := func() error { _, err := m.Subscribe(now, someone, asked); return err }
	push := func(id int32, terminating bool, codec int8) error {
		return m.Push(now, someone, asked, Push{Subscription: id, Terminating: terminating, Compression: codec, Bytes: 1})
	}
	sub, err := m.Subscribe(now, someone, asked)
	require.NoError(t, err)
	id := sub.ID
	require.ErrorIs(t, get(), ErrThrottled)
	require.ErrorIs(t, push(id+1, false, 0), ErrUnknownSubscription)
	require.NoError(t, get(), "it learns what it is to push")
	require.ErrorIs(t, get(), ErrThrottled)
	require.ErrorIs(t, push(id, false, 0), ErrThrottled)

	now = now.Add(time.Second)
	require.NoError(t, push(id, false, 0))
	require.ErrorIs(t, get(), ErrThrottled)

	now = now.Add(time.Second)
	require.ErrorIs(t, push(id, false, 9), ErrUnsupportedCompression)
	require.NoError(t, get())
	require.ErrorIs(t, push(id, false, 0), ErrThrottled)
	require.NoError(t, push(id, true, 0), "its last comes when it closes")
	require.ErrorIs(t, push(id, true, 0), ErrTerminated)
	require.ErrorIs(t, push(id, false, 0), ErrTerminated)
	require.ErrorIs(t, push(id, false, 0), ErrThrottled)

	now = now.Add(time.Second)
	require.NoError(t, push(id, false, 0))
	asked = set(t, 2, map[string]string{"name": "t", "metrics": "x", "interval.ms": "500"})
	require.NoError(t, get(), "something else is asked for")
	require.ErrorIs(t, push(id, false, 0), ErrUnknownSubscription)

	now = now.Add(time.Second)
	sub, err = m.Subscribe(now, someone, asked)
	require.NoError(t, err)
	require.NoError(t, push(sub.ID, false, 0), "the first push comes some time within the interval")
	now = now.Add(499 * time.Millisecond)
	require.ErrorIs(t, push(sub.ID, false, 0), ErrThrottled)
	now = now.Add(time.Millisecond)
	err = m.Push(now, someone, asked, Push{Subscription: sub.ID, Bytes: MaxPushBytes + 1})
	require.ErrorIs(t, err, ErrTooLarge)
	now = now.Add(time.Second)
	require.NoError(t, m.Push(now, someone, asked, Push{Subscription: sub.ID, Bytes: MaxPushBytes}))
}

// The attributes of a client are those of its first request, until the manager drops the client.
func TestClientsAreForgotten(t *testing.T) {
	asked := set(t, 1, map[string]string{"name": "a", "metrics": "m", "interval.ms": "10000", "match": "client_id=web-1"})
	m := new(Manager)
	is := func(now time.Time, who Client, wanted error) {
		t.Helper()
		_, err := m.Subscribe(now, who, asked)
		require.ErrorIs(t, err, wanted)
	}
	is(began, someone, nil)
	is(began, someone, ErrThrottled)
	m.Disconnected(2)
	is(began, someone, ErrThrottled)
	m.Disconnected(1)
	is(began, someone, nil)

	other := someone
	other.ClientID, other.Conn = "batch", 2
	sub, err := m.Subscribe(began.Add(forgetAfter-time.Millisecond), other, asked)
	require.NoError(t, err)
	require.Equal(t, []string{"m"}, sub.Metrics)
	sub, err = m.Subscribe(began.Add(2*forgetAfter-time.Millisecond), other, asked)
	require.NoError(t, err)
	require.Empty(t, sub.Metrics)
	is(began.Add(2*forgetAfter), other, ErrThrottled)
	m.Disconnected(2)
	require.Empty(t, m.clients)
	require.Empty(t, m.byConn)
	require.Zero(t, m.recent.Len())
}

// A client cannot fill the memory with invented instance ids.
func TestClientsAreBounded(t *testing.T) {
	asked := NewSet(1, nil, Request{[]string{""}, time.Minute}, nil)
	m := new(Manager)
	ask := func(n int) error {
		c := someone
		binary.BigEndian.PutUint32(c.Instance[:], uint32(n))
		c.Conn = uint64(n % 10)
		_, err := m.Subscribe(began, c, asked)
		return err
	}
	for n := range MaxClients {
		require.NoError(t, ask(n))
	}
	require.ErrorIs(t, ask(0), ErrThrottled)
	require.NoError(t, ask(MaxClients))
	require.Len(t, m.clients, MaxClients)
	require.LessOrEqual(t, len(m.byConn), 10)
	require.ErrorIs(t, ask(0), ErrThrottled, "it has asked since")
	require.NoError(t, ask(1), "it had asked the longest ago")
	for conn := range 10 {
		m.Disconnected(uint64(conn))
	}
	require.Empty(t, m.byConn)
}
