package kafka

import (
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/topic"
)

// Telemetry receives metrics of clients (KIP-714). It is served, and advertised, if Receive is set.
//
// The metrics are configured as in Kafka, by resources of type client-metrics, which can be
// altered while the cluster runs (kafka-client-metrics.sh). Without such a resource every client
// is subscribed to Metrics at Interval; in Kafka it is then subscribed to nothing. As soon as a
// resource exists, Metrics and Interval are ignored. A client is then subscribed to the metrics of
// all resources that match it, at the shortest of their intervals. If none matches, it is
// subscribed to nothing.
type Telemetry struct {
	// Interval is the time between pushes of a client while no resource exists; 0 means 5 minutes.
	Interval time.Duration

	// Metrics are prefixes of the names of metrics that clients push while no resource exists.
	// Empty means all metrics.
	Metrics []string

	// Receive is called for each push that is not empty. It must not block. It owns the bytes.
	// Calls are concurrent.
	Receive func(TelemetryPush)
}

// A TelemetryPush is one push of a client.
type TelemetryPush struct {
	Broker      int32
	ClientID    string
	ClientHost  string // in Kafka's form, "/127.0.0.1"
	Instance    [16]byte
	Terminating bool // the last push of a client that is closing

	// Compression is the codec of Payload: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd. The bytes come
	// from a client and may be anything.
	Compression int8
	Payload     []byte // OpenTelemetry's MetricsData as protobuf
}

// request returns the subscription of all clients while no resource is configured. All metrics are
// requested with an empty prefix: not every client supports Kafka's "*".
func (t *Telemetry) request() clientmetrics.Request {
	r := clientmetrics.Request{Metrics: t.Metrics, Interval: t.Interval}
	if len(r.Metrics) == 0 {
		r.Metrics = []string{""}
	}
	if r.Interval <= 0 {
		r.Interval = clientmetrics.DefaultInterval
	}
	return r
}

// clientMetrics returns the configured subscriptions of clients.
func (s *Server) clientMetrics() *clientmetrics.Set {
	if set := s.metrics.Load(); set != nil && set.Version == s.cluster.ClientMetricsVersion() {
		return set
	}
	resources, version := s.cluster.ClientMetricsProperties()
	set := clientmetrics.NewSet(version, resources, s.cfg.Telemetry.request(), func(name string, err error) {
		s.log.Warn("client metrics are left out", slog.String("name", name), slog.Any("error", err))
	})
	s.metrics.Store(set) // if this replaces a newer set, the next call finds the old version
	return set
}

// measured returns the client of the call, for clientmetrics.
func (c *call) measured(instance topic.ID) clientmetrics.Client {
	cl := clientmetrics.Client{
		Instance: clientmetrics.ID(instance), Conn: c.conn.id, ClientID: c.clientID, Address: strings.TrimPrefix(c.clientHost, "/"), Port: c.conn.port,
		Software: "unknown", Version: "unknown",
	}
	if s := c.conn.software.Load(); s != nil && s.name != "" {
		cl.Software = s.name
	}
	if s := c.conn.software.Load(); s != nil && s.version != "" {
		cl.Version = s.version
	}
	return cl
}

// getTelemetrySubscriptions returns the metrics that a client is to push. A client without an
// instance id gets one. Key 71, version 0.
func (c *call) getTelemetrySubscriptions(req *kmsg.GetTelemetrySubscriptionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	id := topic.ID(req.ClientInstanceID)
	if id.IsZero() {
		id = topic.NewID()
	}
	sub, err := c.conn.broker.telemetry.Subscribe(time.Now(), c.measured(id), c.s.clientMetrics())
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.ClientInstanceID, resp.SubscriptionID = id, sub.ID
	resp.PushIntervalMillis = int32(min(sub.Interval.Milliseconds(), 1<<31-1))
	resp.AcceptedCompressionTypes = []int8{4, 3, 1, 2}
	resp.TelemetryMaxBytes, resp.DeltaTemporality, resp.RequestedMetrics = clientmetrics.MaxPushBytes, true, sub.Metrics
	return resp
}

// pushTelemetry passes a push to Telemetry.Receive, without parsing it. Key 72, version 0.
func (c *call) pushTelemetry(req *kmsg.PushTelemetryRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.PushTelemetryResponse)
	id := topic.ID(req.ClientInstanceID)
	if id.IsZero() || id == (topic.ID{15: 1}) { // Kafka: Uuid.RESERVED
		resp.ErrorCode = int16(InvalidRequest)
		return resp
	}
	err := c.conn.broker.telemetry.Push(time.Now(), c.measured(id), c.s.clientMetrics(), clientmetrics.Push{
		Subscription: req.SubscriptionID, Compression: req.CompressionType, Terminating: req.Terminating, Bytes: len(req.Metrics),
	})
	resp.ErrorCode = c.errorCode(err)
	if err == nil && len(req.Metrics) > 0 {
		c.s.cfg.Telemetry.Receive(TelemetryPush{
			Broker: c.broker, ClientID: c.clientID, ClientHost: c.clientHost, Instance: req.ClientInstanceID, Terminating: req.Terminating,
			Compression: req.CompressionType, Payload: append([]byte(nil), req.Metrics...),
		})
	}
	return resp
}
