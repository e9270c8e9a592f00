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

// throttles measure what clients use of their quotas.
type throttles struct {
	mu     sync.Mutex // guards the field below; a leaf
	meters clientquota.Meters
}

// record has a client use something, and returns how long it has to wait.
func (t *throttles) record(now time.Time, s *clientquota.Set, k clientquota.Key, c clientquota.Client, used float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meters.Record(now, s, k, c, used)
}

// connect has an address make a connection, and returns for how long that is not served.
// Connections that come from no address, as those within a process, are not counted.
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

// Quotas are those of one broker, as in Kafka, but for ControllerMutationRate, which all brokers of
// the server share. A client that has used too much is answered at once: the answer says how long
// it has to wait, and what it asks meanwhile is read, but not served before that time (KIP-219). A
// fetch is answered without records then, and counts as if nothing had been read.
//
// Deviations: a fetch uses the bytes of its records, where Kafka counts what is around them too. A
// request uses the time that it is worked on by its connection's goroutine, and an answer is
// encoded on that; what is done while it waits, and the writing of answers, is not counted. A share
// fetch uses no bytes.
type metered struct {
	quotas    *clientquota.Set // when the request began; nil: there are none, and nothing is measured
	began     time.Time        // since when its time is to be counted; zero: it is not. Of the goroutine of begin
	throttled time.Duration    // how long the client has to wait, as far as the handler knows
	asked     bool             // by the handler: whether the client has to wait for its requests
}

// exempt reports whether a request is bounded by no quota: brokers send it, or it says who the
// client is. Kafka: sendResponseExemptThrottle, SaslServerAuthenticator.
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

// spent returns the time since it was last asked, in percents of a second. Only the goroutine of
// begin calls it, or one that has the request from that.
func (c *call) spent(now time.Time) float64 {
	if c.began.IsZero() {
		return 0
	}
	d := now.Sub(c.began)
	c.began = now
	return d.Seconds() * 100
}

// pause counts the time until now: others go on with the request, or nobody does.
func (e *execution) pause() {
	if e.began.IsZero() {
		return
	}
	now := time.Now()
	e.conn.broker.throttles.record(now, e.quotas, clientquota.RequestPercentage, e.quotaClient(), e.spent(now))
	e.began = time.Time{}
}

// throttle has the client wait for what the request has used, and its answer say so.
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

// throttleFetch has a client use the bytes that a fetch has read, and reports whether it has to
// wait: then the answer must be without them, and they are not used. Kafka:
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

// mostFetched returns how many bytes a client may fetch at once, at most n and at least 1.
func (c *call) mostFetched(n int) int {
	if c.quotas != nil {
		n = int(min(float64(n), c.quotas.MostAtOnce(clientquota.ConsumerByteRate, c.quotaClient())))
	}
	return max(n, 1)
}

var errMutationQuota = refuse(ThrottlingQuotaExceeded, "kafka: more partitions are changed than the quota allows")

// mutate has a client change partitions. From a version on a change beyond the quota is refused;
// clients of versions before it only have to wait (KIP-599). What is validated only counts too, as
// in Kafka.
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
