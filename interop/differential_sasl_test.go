package interop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/interop/apache"
	"github.com/stratalog/strata/kafka"
)

// A pair is both brokers with the same settings. At their SASL PLAIN listeners clients
// authenticate as one of fews with the password secret. Clients at the plain listeners may do
// everything.
type pair struct {
	kafkas, ours         target
	kafkasSASL, oursSASL string
}

// fews are users with few rights.
var fews = []string{"few", "few1", "few2", "few3"}

func startPair(t *testing.T) pair {
	t.Helper()
	users, passwords := "", map[string]string{}
	for _, few := range fews {
		users += " user_" + few + `="secret"`
		passwords[few] = "secret"
	}
	more := []apache.Listener{{Name: "SASL", Protocol: "SASL_PLAINTEXT"}}
	at := "listener.name.sasl."
	b, err := kafkaKit(t).StartListening(within(t), t.TempDir(), more,
		"auto.create.topics.enable=false", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS",
		"share.coordinator.state.topic.num.partitions=50", "connection.failed.authentication.delay.ms=1",
		// During these tasks a topic's deletion can fail Kafka's log directory.
		"log.retention.check.interval.ms=86400000", "log.initial.task.delay.ms=86400000",
		// Otherwise the answers depend on time.
		"group.streams.initial.rebalance.delay.ms=0", "group.streams.assignment.interval.ms=0",
		at+"sasl.enabled.mechanisms=PLAIN",
		at+"plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "+users+";")
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	served := serveStrata(t, 1, func(cfg *strata.Config) {
		cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = 4, 1
		cfg.RetentionCheckInterval = 24 * time.Hour
		cfg.Group.Streams = group.StreamsConfig{InitialRebalanceDelay: group.Unlimited, AssignmentInterval: group.Unlimited}
	}, func(cfg *kafka.Config) {
		cfg.NoAutoCreate = true
		cfg.Authorization = kafka.Authorization{Enabled: true, SuperUsers: []string{"User:ANONYMOUS"}}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	sasl := &kafka.SASL{Plain: kafka.StaticPasswords(passwords), FailureDelay: time.Millisecond}
	served.listen(&kafka.Listener{Listener: ln, Name: "SASL", Security: kafka.Security{SASL: sasl}})
	return pair{target{kind: "kafka", addr: b.Addr, dir: b.Dir}, served.targets[0], more[0].Addr, ln.Addr().String()}
}

// handshake sends SaslHandshake for PLAIN.
func (c *wireClient) handshake() error {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, "PLAIN"
	got, err := c.ask(req)
	if err == nil && (got == nil || got.(*kmsg.SASLHandshakeResponse).ErrorCode != 0) {
		err = fmt.Errorf("handshake: %s", jsonOf(got))
	}
	return err
}

// authenticate sends the user and the password.
func (c *wireClient) authenticate() error {
	if err := c.handshake(); err != nil {
		return err
	}
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte("\x00"+c.user+"\x00secret")
	got, err := c.ask(req)
	if err == nil && (got == nil || got.(*kmsg.SASLAuthenticateResponse).ErrorCode != 0) {
		err = fmt.Errorf("authenticate: %s", jsonOf(got))
	}
	return err
}

// TestRequestsDuringAuthenticationAreRefusedAsByKafka sends requests of all APIs when a token is
// due. Brokers answer ILLEGAL_SASL_STATE and close the connection. Kafka: getErrorResponse of its
// requests.
func TestRequestsDuringAuthenticationAreRefusedAsByKafka(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	theirs := &wireClient{addr: p.kafkas.addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))}
	ours := &wireClient{addr: p.ours.addr, form: theirs.form}
	require.NoError(t, theirs.dial())
	require.NoError(t, ours.dial())
	versions, mine := advertised(t, theirs), advertised(t, ours)
	m := newModel("a")
	seen, asked := newTally(), 0
	seeds := uint64(1)
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 5
	}
	answer := func(addr string, req kmsg.Request) (kmsg.Response, error) {
		c := &wireClient{addr: addr, form: theirs.form}
		if err := c.dial(); err != nil {
			return nil, err
		}
		defer func() { c.nc.Close() }()
		if err := errors.Join(c.handshake(), c.send(req)); err != nil {
			return nil, err
		}
		got, err := c.read(req)
		if errors.Is(err, errClosed) {
			return nil, nil
		}
		if err == nil {
			if _, after := c.read(req); !errors.Is(after, errClosed) {
				err = fmt.Errorf("%s: the connection goes on: %w", addr, after)
			}
		}
		return got, err
	}
	plain := strings.NewReplacer("a-", "P-").Replace
	requests := make(chan kmsg.Request)
	var wg sync.WaitGroup
	for range 8 { // Kafka takes its time to close a connection
		wg.Go(func() {
			for req := range requests {
				a, err := answer(p.kafkasSASL, req)
				b, err2 := answer(p.oursSASL, req)
				if err := errors.Join(err, err2); err != nil {
					t.Errorf("%s v%d %s: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req), err)
					continue
				}
				for _, d := range seen.unlisted(req, plain(jsonOf(req)), plain, newCorrespondence().compare(viewOf("a", req), a, b)) {
					t.Errorf("%s v%d %s\n  %s", kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req), d)
				}
			}
		})
	}
	for key, v := range versions {
		// SaslAuthenticate is the request that is due.
		if _, served := mine[key]; !served || key == 36 {
			continue
		}
		for version := max(v[0], mine[key][0]); version <= min(v[1], mine[key][1]); version++ {
			if key == 0 && version < 3 || seeds == 1 && version != v[0] && version != min(v[1], mine[key][1]) && key != 1 {
				continue
			}
			for seed := range seeds {
				asked++
				requests <- newGen(seed, int(key)*100+int(version), m).request(key, version)
			}
		}
	}
	close(requests)
	wg.Wait()
	t.Logf("%d requests", asked)
	require.Greater(t, asked, 100)
	if seeds > 1 {
		require.Greater(t, asked, 1200)
	}
}
