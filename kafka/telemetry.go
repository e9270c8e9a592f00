package kafka

import (
	"hash/crc32"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// Telemetry takes in what clients measure of themselves (KIP-714). It is
// served, and advertised, if Receive is set.
type Telemetry struct {
	// Interval is how often clients push; 0 means 5 minutes. Kafka:
	// interval.ms of a client-metrics resource.
	Interval time.Duration

	// Metrics are the prefixes of the names of the metrics that clients push; none: all metrics.
	// Kafka: metrics of a client-metrics resource.
	Metrics []string

	// Receive gets each push. It must not block; the bytes belong to it. It is
	// called from several goroutines at once.
	Receive func(TelemetryPush)
}

// A TelemetryPush is one push of a client.
type TelemetryPush struct {
	Broker      int32
	ClientID    string
	ClientHost  string // as Kafka shows it: "/127.0.0.1"
	Instance    [16]byte
	Terminating bool // the client is closing: its last push

	// Compression is the codec of Payload: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. The bytes come
	// from a client and may be anything.
	Compression int8
	Payload     []byte // OpenTelemetry's MetricsData as protobuf
}

const (
	defaultTelemetryInterval = 5 * time.Minute
	maxTelemetryBytes        = 1 << 20 // of one push. Kafka: telemetry.max.bytes
	codecs                   = 5       // that Kafka knows
)

// requested is what clients are told to push; Kafka's way to say all is one empty prefix.
func (t Telemetry) requested() []string {
	if len(t.Metrics) == 0 {
		return []string{""}
	}
	return t.Metrics
}

// subscription numbers the metrics that are asked for, so that a client
// of an older configuration is noticed.
func (t Telemetry) subscription() int32 {
	return int32(crc32.ChecksumIEEE([]byte(strings.Join(t.requested(), ","))))
}

func (t Telemetry) interval() time.Duration {
	if t.Interval <= 0 {
		return defaultTelemetryInterval
	}
	return t.Interval
}

// getTelemetrySubscriptions tells a client what to push; one without an instance id is given one.
// Key 71, version 0.
func (c *call) getTelemetrySubscriptions(req *kmsg.GetTelemetrySubscriptionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	t := c.s.cfg.Telemetry
	resp.ClientInstanceID = req.ClientInstanceID
	if topic.ID(req.ClientInstanceID).IsZero() {
		resp.ClientInstanceID = topic.NewID()
	}
	resp.SubscriptionID, resp.PushIntervalMillis = t.subscription(), int32(min(t.interval().Milliseconds(), 1<<31-1))
	resp.AcceptedCompressionTypes = []int8{4, 3, 1, 2}
	resp.TelemetryMaxBytes, resp.DeltaTemporality, resp.RequestedMetrics = maxTelemetryBytes, true, t.requested()
	return resp
}

// pushTelemetry hands a push on. Its bytes are not looked at. Key 72, version 0.
func (c *call) pushTelemetry(req *kmsg.PushTelemetryRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.PushTelemetryResponse)
	t := c.s.cfg.Telemetry
	switch {
	case topic.ID(req.ClientInstanceID).IsZero():
		resp.ErrorCode = int16(InvalidRequest)
	case req.SubscriptionID != t.subscription():
		resp.ErrorCode = int16(UnknownSubscriptionID)
	case req.CompressionType < 0 || req.CompressionType >= codecs:
		resp.ErrorCode = int16(UnsupportedCompressionType)
	case len(req.Metrics) > maxTelemetryBytes:
		resp.ErrorCode = int16(TelemetryTooLarge)
	default:
		t.Receive(TelemetryPush{
			Broker: c.broker, ClientID: c.clientID, ClientHost: c.clientHost, Instance: req.ClientInstanceID, Terminating: req.Terminating,
			Compression: req.CompressionType, Payload: append([]byte(nil), req.Metrics...),
		})
	}
	return resp
}
