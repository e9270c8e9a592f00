package kafka

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// throttles measure the usage of clients' quotas.
type throttles struct {
	mu     sync.Mutex // guards the field below; a leaf
	meters clientquota.Meters
}

// record adds usage of a quota by a client, and returns the time that the client has to wait.
func (t *throttles) record(now time.Time, s *clientquota.Set, k clientquota.Key, c clientquota.Client, used float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meters.Record(now, s, k, c, used)
}

// connect counts a connection from an address, and returns the time for which it is not served; 0
// means that it is served. Connections without an address, such as those within a process, are not
// counted.
func (b *broker) connect(s *clientquota.Set, from net.Addr) time.Duration {
	if s == nil || from == nil {
		return 0
	}
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return 0
	}
	t := &b.throttles
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meters.Connect(time.Now(), s, at.Addr().WithZone(""))
}

// metered measures the usage of quotas by a request. Quotas are those of one broker, as in Kafka,
// except ControllerMutationRate, which all brokers of the server share. A client that exceeds a
// quota is answered at once. The response has the throttle time. Requests of the client during
// that time are read, but not served before it ends (KIP-219). A throttled fetch is answered
// without records, and counts as if nothing had been read.
//
// Deviations: a fetch uses the bytes of its records; Kafka also counts the rest of the response. A
// request uses the time for which its connection's goroutine works on it, until its response is to
// be encoded. Later work, and work while the request waits, is not counted. A share fetch uses no
// bytes.
type metered struct {
	quotas    *clientquota.Set // as of the begin of the request; nil: no quotas, nothing is measured
	began     time.Time        // start of the time not counted yet; zero: not counted. Of the goroutine of begin
	throttled time.Duration    // time that the client has to wait according to the handler
	asked     bool             // the handler has applied the quota of request time itself
}

// exempt reports whether no quota applies to a request: brokers send it, or it authenticates the
// client. Kafka: sendResponseExemptThrottle, SaslServerAuthenticator.
func exempt(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return replicaOf(r) >= 0
	case *kmsg.SASLHandshakeRequest, *kmsg.SASLAuthenticateRequest, *kmsg.WriteTxnMarkersRequest,
		*kmsg.InitializeShareGroupStateRequest, *kmsg.ReadShareGroupStateRequest, *kmsg.WriteShareGroupStateRequest,
		*kmsg.DeleteShareGroupStateRequest, *kmsg.ReadShareGroupStateSummaryRequest:
		return true
	}
	return false
}

// meter begins to measure a request, if there are quotas.
func (e *execution) meter() {
	if quotas := e.s.cluster.ClientQuotas(); quotas != nil && !exempt(e.req) {
		e.quotas, e.began = quotas, time.Now()
	}
}

func (c *call) quotaClient() clientquota.Client {
	return clientquota.Client{User: c.principal.Name, ID: c.clientID}
}

// spent returns the time since its last call, in percent of a second. Only the goroutine of begin
// calls it, or a goroutine that has received the request from it.
func (c *call) spent(now time.Time) float64 {
	if c.began.IsZero() {
		return 0
	}
	d := now.Sub(c.began)
	c.began = now
	return d.Seconds() * 100
}

// pause counts the time until now. After it, time is not counted.
func (e *execution) pause() {
	if e.began.IsZero() {
		return
	}
	now := time.Now()
	e.conn.broker.throttles.record(now, e.quotas, clientquota.RequestPercentage, e.quotaClient(), e.spent(now))
	e.began = time.Time{}
}

// throttle mutes the client for its usage by the request, and sets the throttle time of the
// response.
func (e *execution) throttle(resp kmsg.Response, by transport.Writer) {
	now, client, spent := time.Now(), e.quotaClient(), 0.0
	if by == transport.Caller {
		spent = e.spent(now)
	}
	wait := e.throttled
	t := &e.conn.broker.throttles
	if e.api.key == Produce {
		wait = max(wait, t.record(now, e.quotas, clientquota.ProducerByteRate, client, float64(len(e.request.Bytes))))
	}
	unanswered := e.api.key == Produce && resp == nil
	if d := t.record(now, e.quotas, clientquota.RequestPercentage, client, spent); !e.asked && !unanswered {
		wait = max(wait, d)
	}
	if wait <= 0 {
		return
	}
	if r, ok := resp.(kmsg.SetThrottleResponse); ok {
		r.SetThrottle(int32(wait.Milliseconds()))
	}
	e.conn.throttle(wait)
}

// throttleFetch counts the bytes that a fetch has read, and reports whether the client has to
// wait. Then the response must have no records, and the bytes are not counted. Kafka:
// KafkaApis.handleFetchRequest.
func (c *call) throttleFetch(f *fetching) bool {
	if c.quotas == nil {
		return false
	}
	size := 0.0
	for i := range f.answers {
		size += float64(len(f.answers[i].RecordBatches))
	}
	now, client, t := time.Now(), c.quotaClient(), &c.conn.broker.throttles
	c.asked = true
	c.throttled = max(t.record(now, c.quotas, clientquota.RequestPercentage, client, c.spent(now)),
		t.record(now, c.quotas, clientquota.ConsumerByteRate, client, size))
	if c.throttled > 0 {
		t.record(now, c.quotas, clientquota.ConsumerByteRate, client, -size)
	}
	return c.throttled > 0
}

// mostFetched returns the number of bytes that a client may fetch at once, at most n and at least
// 1.
func (c *call) mostFetched(n int) int {
	if c.quotas != nil {
		n = int(min(float64(n), c.quotas.MostAtOnce(clientquota.ConsumerByteRate, c.quotaClient())))
	}
	return max(n, 1)
}

var errMutationQuota = refuse(ThrottlingQuotaExceeded, "kafka: more partitions are changed than the quota allows")

// mutate counts a change of partitions by a client. From version strictFrom on, a change beyond
// the quota is rejected; clients of earlier versions only have to wait (KIP-599). Requests that
// only validate count too, as in Kafka.
func (c *call) mutate(partitions int, strictFrom int16) error {
	if c.quotas == nil {
		return nil
	}
	how := clientquota.Permissive
	if c.version >= strictFrom {
		how = clientquota.Strict
	}
	t := &c.s.mutations
	t.mu.Lock()
	wait, ok := t.meters.Mutate(time.Now(), c.quotas, c.quotaClient(), partitions, how)
	t.mu.Unlock()
	if c.throttled = max(c.throttled, wait); !ok {
		return errMutationQuota
	}
	return nil
}
