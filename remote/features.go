package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Feature is something that old brokers do not have. See Cluster.Supports.
type Feature uint8

// Features.
const (
	// TopicIDs: a topic that was deleted and created again is recognized. Kafka 2.8.
	TopicIDs Feature = iota
	// ConsumerProtocol: consumer.ProtocolConsumer (KIP-848). Kafka 4.0.
	ConsumerProtocol
	// ShareGroups: consumer.NewShare (KIP-932). Kafka 4.1.
	ShareGroups
	// Transactions: producers with a TransactionalID. Kafka 0.11.
	Transactions
	// TransactionsV2: each transaction has an epoch of its own (KIP-890), by the feature
	// transaction.version. Kafka 4.0.
	TransactionsV2
)

// featureRows are the names of the features, and the requests that they need.
var featureRows = [...]struct {
	name         string
	key, version int16
}{
	TopicIDs:         {"topic ids", int16(kmsg.Fetch), 13},
	ConsumerProtocol: {"the consumer group protocol", int16(kmsg.ConsumerGroupHeartbeat), 0},
	ShareGroups:      {"share groups", int16(kmsg.ShareFetch), 1},
	Transactions:     {"transactions", int16(kmsg.EndTxn), 0},
	TransactionsV2:   {"transaction.version 2", int16(kmsg.EndTxn), 5},
}

// String returns the name of the feature.
func (f Feature) String() string {
	if int(f) < len(featureRows) {
		return featureRows[f].name
	}
	return "invalid"
}

// features are the versions of requests and features of one broker.
type features struct {
	requests    map[int16]int16 // largest version by key
	transaction int16           // transaction.version
	at          time.Time
}

// Supports returns nil if the cluster supports a feature, as far as the broker that responded last
// shows. Otherwise the error matches ErrUnsupported. It does not block.
func (c *Cluster) Supports(f Feature) error {
	if int(f) >= len(featureRows) {
		return fmt.Errorf("%w: feature %d", ErrUnsupported, f)
	}
	row := featureRows[f]
	c.mu.Lock()
	defer c.mu.Unlock()
	version, ok := c.features.requests[row.key]
	if !ok || version < row.version || f == TransactionsV2 && c.features.transaction < 2 {
		return fmt.Errorf("%w: %s", ErrUnsupported, f)
	}
	return nil
}

// fetchFeatures reads the versions and features of a broker.
func (c *Cluster) fetchFeatures(ctx context.Context) error {
	resp, err := readAny[*kmsg.ApiVersionsResponse](ctx, c.session, "api versions", fromAdmin, func() kmsg.Request { return kmsg.NewPtrApiVersionsRequest() })
	if err == nil {
		err = codeError(fromAdmin, resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	f := features{requests: map[int16]int16{}, at: time.Now()}
	for _, k := range resp.ApiKeys {
		f.requests[k.ApiKey] = k.MaxVersion
	}
	for _, one := range resp.FinalizedFeatures {
		if one.Name == "transaction.version" {
			f.transaction = one.MaxVersionLevel
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.features = f
	return nil
}

// transactionVersion returns the present level of the feature transaction.version, which an
// operator may raise while the cluster runs.
func (c *Cluster) transactionVersion(ctx context.Context) (int16, error) {
	if err := c.fetchFeatures(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.features.transaction, nil
}
