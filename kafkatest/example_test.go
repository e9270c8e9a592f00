package kafkatest_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

// The snippet of the README.
func TestOrderIsWrittenOnceThoughTheAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a virtual clock: timeouts cost no time
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 6}}) // serving; closed with the test
		lost := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, DropReply: true})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
		require.NoError(t, err)
		defer cl.Close()
		err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr()
		require.NoError(t, err)
		require.Equal(t, 1, lost.Hits())     // it was written, but the client never heard so;
		require.Len(t, s.Topic("orders"), 1) // it sent the order again, and the broker knew it
	})
}

// program is a kafkatest.T that is not a test.
type program struct{ cleanups []func() }

func (p *program) Helper()           {}
func (p *program) Cleanup(fn func()) { p.cleanups = append(p.cleanups, fn) }
func (p *program) Logf(format string, args ...any) {
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Info(fmt.Sprintf(format, args...))
}
func (p *program) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (p *program) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func Example() {
	var p program // in a test: its *testing.T
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Topics: map[string]int{"greetings": 1}})
	s.Fill("greetings", record.String("greetings", "en", "hello"), record.String("greetings", "fr", "salut"))
	for _, r := range s.Topic("greetings") {
		fmt.Println(r.Offset, string(r.Key), string(r.Value))
	}
	// Output:
	// 0 en hello
	// 1 fr salut
}
