package testkit

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

// program is a kafkatest.T outside of a test; in a test it is t.
type program struct{ cleanups []func() }

func (p *program) Helper()                           {}
func (p *program) Cleanup(fn func())                 { p.cleanups = append(p.cleanups, fn) }
func (p *program) Logf(format string, args ...any)   { fmt.Printf(format+"\n", args...) }
func (p *program) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (p *program) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func Example_franz() {
	var t program // in a test: its *testing.T
	defer t.end()
	s := kafkatest.New(&t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	s.Fill("orders", record.String("orders", "", "paid"))
	failed := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Topic: "orders", Code: kafka.OffsetNotAvailable})

	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		panic(err)
	}
	defer cl.Close()
	for got := 0; got == 0; {
		cl.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			fmt.Println(string(r.Value))
			got++
		})
	}
	fmt.Println(failed.Hits(), "fetch had failed")
	// Output:
	// paid
	// 1 fetch had failed
}

func Example_sarama() {
	var t program
	defer t.end()
	s := kafkatest.New(&t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	cut := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, Close: true, AfterApply: true})

	c := sarama.NewConfig()
	c.Version = sarama.V2_1_0_0
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	c.Producer.Return.Successes = true
	p, err := sarama.NewSyncProducer(s.Addrs(), c)
	if err != nil {
		panic(err)
	}
	defer p.Close()
	_, offset, err := p.SendMessage(&sarama.ProducerMessage{Topic: "orders", Value: sarama.StringEncoder("paid")})
	fmt.Println(offset, err, "- connections cut:", cut.Hits(), "- records:", len(s.Topic("orders")))
	// Output:
	// 0 <nil> - connections cut: 1 - records: 1
}

func Example_kafkaGo() {
	var t program
	defer t.end()
	s := kafkatest.New(&t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	few := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, Code: kafka.NotEnoughReplicas, Times: 2})

	w := &kafkago.Writer{Addr: kafkago.TCP(s.Addrs()...), Topic: "orders", RequiredAcks: kafkago.RequireAll, BatchSize: 1}
	defer w.Close()
	err := w.WriteMessages(context.Background(), kafkago.Message{Value: []byte("paid")})
	fmt.Println(err, "- refused before:", few.Hits(), "- records:", len(s.Topic("orders")))

	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: s.Addrs(), GroupID: "billing", Topic: "orders",
		MaxWait: 100 * time.Millisecond}) // Close waits for the fetch under way
	defer r.Close()
	m, err := r.ReadMessage(context.Background()) // commits
	fmt.Println(string(m.Value), err)
	s.WaitCommitted("billing", record.TopicPartition{Topic: "orders"}, 1)
	// Output:
	// <nil> - refused before: 2 - records: 1
	// paid <nil>
}
