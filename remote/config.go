package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/topic"
)

// Config describes the connection to a cluster. Only Brokers is required.
type Config struct {
	// Brokers are addresses, HOST:PORT, of some brokers; the others are found through them. Without
	// a port, 9092 is used. Kafka: bootstrap.servers.
	Brokers []string

	// ClientID is the name for producers and consumers without one of their own. Empty means
	// "strata". Kafka: client.id.
	ClientID string

	// TLS makes connections with TLS; nil: without. ServerName need not be set: it is the host of
	// the broker's address. Kafka: security.protocol SSL or SASL_SSL.
	TLS *tls.Config
	// SASL has the logins, the preferred one first, as packages below
	// github.com/twmb/franz-go/pkg/sasl make them: PLAIN, SCRAM, OAUTHBEARER, Kerberos, AWS. Empty:
	// no login. Kafka: sasl.mechanism, sasl.jaas.config.
	SASL []sasl.Mechanism
	// Dial makes the connections instead of net.Dialer. Its ctx ends after RequestTimeout, at most
	// after 10 s. nil: the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// FetchAhead is the number of bytes that a reader may have fetched before it requests them, for
	// each of its brokers at most one response. 0 means the MaxBytes of the reader, negative none.
	FetchAhead int

	// RequestTimeout is the time after which a broker that does not respond counts as unreachable,
	// from 100 ms to 15 minutes. It is in addition to the time that a request itself waits. A
	// request must be written within it: raise it for large records on a slow link. If no broker
	// responds, a call without a deadline returns ErrUnreachable after at most three times
	// RequestTimeout. 0 means 10 s. Kafka: request.timeout.ms, which includes the time that a
	// request waits.
	RequestTimeout time.Duration
	// MetadataMaxAge is the longest time between two refreshes of the metadata, from
	// 1 ms. A response that names another leader causes one at once. 0 means 5 s. Kafka:
	// metadata.max.age.ms, whose default is 5 minutes.
	MetadataMaxAge time.Duration

	// Properties are settings by their Kafka names, as in the configuration of a Java client:
	// bootstrap.servers, client.id, request.timeout.ms, metadata.max.age.ms, security.protocol,
	// sasl.mechanism and sasl.jaas.config for PLAIN and SCRAM, ssl.truststore and ssl.keystore in
	// PEM. Open returns a *topic.ConfigError for a name that it does not know, and for a value that
	// contradicts a field. Settings of producers and consumers are in Properties of their Config.
	Properties map[string]string

	// Hooks observe connections and requests, for metrics and traces.
	Hooks []kgo.Hook
	// Logger receives log messages; nil discards them.
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultRequestTimeout = 10 * time.Second
	DefaultMetadataMaxAge = 5 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	refuse := func(key, value, reason string) (Config, error) {
		return c, &topic.ConfigError{Key: key, Value: value, Reason: reason}
	}
	if err := c.readProperties(); err != nil {
		return c, err
	}
	if len(c.Brokers) == 0 || slices.Contains(c.Brokers, "") {
		return refuse("Brokers", "", "has no address")
	}
	if c.ClientID == "" {
		c.ClientID = "strata"
	}
	c.RequestTimeout, c.MetadataMaxAge = cmp.Or(c.RequestTimeout, DefaultRequestTimeout), cmp.Or(c.MetadataMaxAge, DefaultMetadataMaxAge)
	if c.RequestTimeout < 100*time.Millisecond || c.RequestTimeout > 15*time.Minute {
		return refuse("RequestTimeout", c.RequestTimeout.String(), "is not from 100 ms to 15 minutes")
	}
	if c.MetadataMaxAge < time.Millisecond {
		return refuse("MetadataMaxAge", c.MetadataMaxAge.String(), "is below 1 ms")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// newLink returns a client with connections of its own.
func (cl *Cluster) newLink(clientID string, unacknowledged bool) (*link.Client, error) {
	c := &cl.cfg
	if clientID == "" {
		clientID = c.ClientID
	}
	l, err := link.Open(link.Config{
		Brokers: c.Brokers, ClientID: clientID, TLS: c.TLS, SASL: c.SASL, Dial: c.Dial, Hooks: append(slices.Clone(c.Hooks), &cl.counters),
		RequestTimeout: c.RequestTimeout, Unacknowledged: unacknowledged,
	})
	if err != nil {
		return nil, &topic.ConfigError{Key: "Brokers or ClientID", Value: fmt.Sprintf("%.200q", c.Brokers), Reason: err.Error()}
	}
	return l, nil
}
