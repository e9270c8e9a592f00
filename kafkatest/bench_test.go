package kafkatest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkStartToFirstRecord measures from New to a record that was produced and consumed. Two
// new clients do that in the process of the broker. The end of the server is not measured.
func BenchmarkStartToFirstRecord(b *testing.B) {
	for name, cfg := range map[string]func() Config{
		"memory":           func() Config { return Config{} },
		"pipe":             func() Config { return Config{Pipe: true} },
		"directory":        func() Config { return Config{Dir: b.TempDir()} },
		"directory/synced": func() Config { return Config{Dir: b.TempDir(), Sync: true} },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				c := cfg()
				c.Topics = map[string]int{"bench": 1}
				f := &fakeT{}
				require.Empty(b, f.run(func() {
					b.StartTimer()
					first(b, New(f, c))
					b.StopTimer()
				}))
			}
		})
	}
}

func first(b *testing.B, s *Server) {
	opts := []kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial)}
	producer, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("bench"), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		b.Fatal(err)
	}
	consumer, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("bench"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		b.Fatal(err)
	}
	if err := producer.ProduceSync(b.Context(), kgo.StringRecord("first")).FirstErr(); err != nil {
		b.Fatal(err)
	}
	if n := consumer.PollFetches(b.Context()).NumRecords(); n != 1 {
		b.Fatalf("%d records", n)
	}
	b.StopTimer()
	producer.Close()
	consumer.Close()
	b.StartTimer()
}

// BenchmarkStartStop measures a server without topics from New to the end of its test, which waits
// for the server's goroutines.
func BenchmarkStartStop(b *testing.B) { startStop(b, Config{}) }

// BenchmarkStartStopPipe is BenchmarkStartStop without TCP.
func BenchmarkStartStopPipe(b *testing.B) { startStop(b, Config{Pipe: true}) }

// BenchmarkStartStopBeside is BenchmarkStartStop while the test has goroutines of its own. The
// server has to distinguish them from its own.
func BenchmarkStartStopBeside(b *testing.B) {
	ended := make(chan struct{})
	defer close(ended)
	for range 10 {
		go func() { <-ended }()
	}
	startStop(b, Config{})
}

func startStop(b *testing.B, cfg Config) {
	b.ReportAllocs()
	for b.Loop() {
		t := &briefT{B: b}
		New(t, cfg)
		t.end()
	}
}

// A briefT is a test that ends before its benchmark.
type briefT struct {
	*testing.B
	cleanups []func()
}

func (t *briefT) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *briefT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
