package topic_test

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func Example() {
	cfg := topic.Config{
		Partitions: 6,
		Log:        log.Config{RetentionAge: 24 * time.Hour},
		Properties: map[string]string{"compression.type": "zstd"},
	}
	keys, err := cfg.Explicit() // as the controller stores and Kafka's tools print them
	fmt.Println(keys, err)

	s, _ := topic.Parse(keys, nil)
	for _, k := range []string{"retention.ms", "segment.bytes"} {
		v, source := s.Value(k)
		fmt.Println(k, v, source)
	}
	_, err = topic.Parse(map[string]string{"retention.ms": "a day"}, nil)
	fmt.Println(err)
	// Output:
	// map[compression.type:zstd retention.ms:86400000] <nil>
	// retention.ms 86400000 DYNAMIC_TOPIC_CONFIG
	// segment.bytes 1073741824 DEFAULT_CONFIG
	// topic: invalid configuration retention.ms="a day": must be a 64-bit number
}

func ExampleDefault() {
	p := topic.Default()
	// The same partitions as from any Kafka client.
	for _, key := range []string{"a", "21", "kafka"} {
		fmt.Println(key, p.Partition(record.String("orders", key, "v"), 3))
	}
	// Output:
	// a 1
	// 21 0
	// kafka 1
}

func ExampleComposite() {
	// Tenants have blocks of four partitions; inside a block the key decides.
	tenant := topic.PartitionerFunc(func(r record.Record, n int) int {
		name, _ := r.Header("tenant")
		return map[string]int{"acme": 0, "globex": 1}[string(name)]
	})
	p := topic.Composite(tenant, 4, topic.Hash())
	r := record.String("orders", "user-1", "v")
	r.Headers = []record.Header{{Key: "tenant", Value: []byte("globex")}}
	got := p.Partition(r, 8)
	fmt.Println(got >= 4 && got < 8)
	// Output: true
}
