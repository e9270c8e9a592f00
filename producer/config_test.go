package producer

import (
	"bytes"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func TestZeroConfigIsTheSafest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(n int, req *partition.ProduceRequest, _ *record.Batch) fate {
			require.Equal(t, record.AcksAll, req.Acks)
			return fate{replyLost: n < 10}
		}
		p := newProducer(t, f, Config{})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		require.Len(t, f.headers(), 11, "it is sent until it is confirmed")
		for _, b := range f.headers() {
			require.True(t, b.HasProducerID())
		}
		require.Equal(t, numbers(0, 1), f.values("a", 0), "and written once")

		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{lost: true} }
		start := time.Now()
		_, err = p.Send(t.Context(), value("a", 1))
		require.ErrorIs(t, err, ErrTimeout)
		require.Equal(t, 2*time.Minute, time.Since(start), "loss is noticed and reported")
		require.NoError(t, p.Close())
	})
}

func TestPropertiesFillInTheFields(t *testing.T) {
	s, err := Config{Linger: 7 * time.Millisecond, Properties: map[string]string{
		"acks": "1", "compression.type": "zstd", "batch.size": "1000", "linger.ms": "7", "delivery.timeout.ms": "60000", "request.timeout.ms": "5000",
		"max.block.ms": "0", "retries": "4", "retry.backoff.ms": "10", "retry.backoff.max.ms": "100", "max.in.flight.requests.per.connection": "9",
		"max.request.size": "5000", "buffer.memory": "100000", "enable.idempotence": "false",
	}}.resolve()
	require.NoError(t, err)
	require.Equal(t, record.AcksLeader, s.Acks)
	require.Equal(t, record.Zstd, s.Compression)
	require.Equal(t, []int{1000, 4, 9, 5000, 100000}, []int{s.BatchBytes, s.Retries, s.MaxInFlight, s.MaxRequestBytes, s.MaxBufferedBytes})
	require.Equal(t, []time.Duration{7 * time.Millisecond, time.Minute, 5 * time.Second, NoWait, 10 * time.Millisecond, 100 * time.Millisecond},
		[]time.Duration{s.Linger, s.DeliveryTimeout, s.RequestTimeout, s.MaxBlock, s.RetryBackoff, s.RetryBackoffMax})
	require.False(t, s.idempotent)
}

func TestLogLinesOfAProducerHaveItsClientID(t *testing.T) {
	for _, cfg := range []Config{{ClientID: "billing"}, {Properties: map[string]string{"client.id": "billing"}}} {
		var out bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
		p := newProducer(t, newFake(map[string]int{"a": 1}), cfg)
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		p.topics.get("a").view.Load().parts[0].restart = newEpoch
		_, err = p.Send(t.Context(), value("a", 1))
		require.NoError(t, err)
		require.Contains(t, out.String(), `msg="producer starts a new epoch" client_id=billing topic=a`)
	}
}

func TestRetriesPropertyHasKafkasMeaning(t *testing.T) {
	for value, want := range map[string]int{"0": NoRetries, "3": 3, strconv.Itoa(math.MaxInt32): 0} {
		s, err := Config{Properties: map[string]string{"retries": value}}.resolve()
		require.NoError(t, err)
		require.Equal(t, want, s.Retries)
		require.Equal(t, want >= 0, s.idempotent)
	}
}

func TestBadConfigsAreRefusedWithTheKey(t *testing.T) {
	for _, c := range []struct {
		key string
		cfg Config
	}{
		{"acks", Config{Properties: map[string]string{"acks": "2"}}},
		{"acks", Config{Acks: record.AcksLeader, Properties: map[string]string{"acks": "all"}}},
		{"linger.ms", Config{Linger: time.Second, Properties: map[string]string{"linger.ms": "5"}}},
		{"linger.ms", Config{Properties: map[string]string{"linger.ms": "5ms"}}},
		{"retries", Config{Retries: 5, Properties: map[string]string{"retries": "2147483647"}}},
		{"retries", Config{Properties: map[string]string{"retries": "-1"}}},
		{"enable.idempotence", Config{NoIdempotence: true, Properties: map[string]string{"enable.idempotence": "true"}}},
		{"enable.idempotence", Config{Acks: record.AcksLeader, Properties: map[string]string{"enable.idempotence": "true"}}},
		{"enable.idempotence", Config{Properties: map[string]string{"enable.idempotence": "maybe"}}},
		{"compression.type", Config{Properties: map[string]string{"compression.type": "rar"}}},
		{"bootstrap.servers", Config{Properties: map[string]string{"bootstrap.servers": "x:1"}}},
		{"MaxInFlight", Config{MaxInFlight: 6}},
		{"ClientID", Config{ClientID: strings.Repeat("x", 1<<15)}},
		{"BatchBytes", Config{BatchBytes: -1}},
		{"Retries", Config{Retries: -2}},
		{"Acks", Config{Acks: 7}},
		{"Compression", Config{Compression: 9}},
		{"DeliveryTimeout", Config{DeliveryTimeout: time.Second, RequestTimeout: 2 * time.Second}},
		{"DeliveryTimeout", Config{DeliveryTimeout: time.Second, Linger: 2 * time.Second}},
	} {
		_, err := New(newFake(nil), c.cfg)
		var ce *ConfigError
		require.ErrorAs(t, err, &ce, c.key)
		require.Equal(t, c.key, ce.Key)
		require.Contains(t, err.Error(), c.key)
	}
}

func TestAllComplaintsAboutAConfigComeTogether(t *testing.T) {
	_, err := New(newFake(nil), Config{BatchBytes: -1, Properties: map[string]string{"nonsense": "1", "acks": "x"}})
	for _, key := range []string{"BatchBytes", "nonsense", "acks"} {
		require.ErrorContains(t, err, key)
	}
}

func TestOrderIsKeptWithoutIdempotenceUnlessAskedOtherwise(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int
	}{
		{Config{NoIdempotence: true}, 1},
		{Config{NoIdempotence: true, MaxInFlight: 8}, 8},
		{Config{Retries: NoRetries}, 5},
		{Config{Acks: record.AcksNone}, 5},
	} {
		s, err := c.cfg.resolve()
		require.NoError(t, err)
		require.Equal(t, c.want, s.MaxInFlight)
	}
}
