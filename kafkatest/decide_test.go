package kafkatest

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
)

// A client meets one fault after another. Each is decided when its request arrives, and each is
// delayed. The record is written once and read once.
func TestEachRequestOfAClientMeetsWhatIsDecidedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		var seen, unanswered atomic.Int32
		stop := s.Observe(func(x *kafka.Exchange) {
			if kafka.Key(x.Key) != kafka.Produce {
				return
			}
			seen.Add(1)
			if x.Response == nil {
				unanswered.Add(1)
			}
		})
		n := 0
		decided := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Decide: func(*kafka.Exchange) *Effect {
			n++
			switch n {
			case 1:
				return &Effect{Close: true, AfterApply: true} // written, and the answer lost
			case 2:
				return &Effect{Code: kafka.NotLeaderOrFollower}
			case 3:
				s.Leader("a", 0) // Decide may use the server
				return &Effect{Edit: func(_ kmsg.Request, resp kmsg.Response) {
					resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode = int16(kafka.RequestTimedOut)
				}}
			}
			return nil
		}})
		late := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Delay: time.Minute, Times: 3})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.DefaultProduceTopic("a"), kgo.ProduceRequestTimeout(10*time.Minute))
		require.NoError(t, err)
		defer cl.Close()
		began := time.Now()
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("1")).FirstErr())
		require.GreaterOrEqual(t, time.Since(began), 3*time.Minute)
		require.Equal(t, []int{3, 3}, []int{decided.Hits(), late.Hits()})
		require.Len(t, s.Topic("a"), 1)
		require.Equal(t, []int32{4, 1}, []int32{seen.Load(), unanswered.Load()})
		stop()
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("2")).FirstErr())
		require.Equal(t, int32(4), seen.Load())
	})
}

func TestEffectThatMakesNoSenseFailsTheTest(t *testing.T) {
	f := &fakeT{}
	said := f.run(func() {
		s := New(f, Config{Pipe: true})
		s.Fault(Fault{Decide: func(*kafka.Exchange) *Effect { return &Effect{Code: 1, Close: true} }})
		w := dial(t, s)
		w.send(kmsg.NewPtrMetadataRequest())
		_, err := io.ReadAll(w.conn) // until it is closed
		require.NoError(t, err)
	})
	require.Contains(t, said, errTwoEffects.Error())
}
