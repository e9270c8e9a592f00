package kafkatest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// A client that does not read delays only its own answers, not the server's time nor other
// clients. The server keeps little of the unread data.
func TestClientThatDoesNotReadHoldsUpItselfOnly(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		const fetches, size = 40, 900 << 10
		cfg.Topics = map[string]int{"orders": 1}
		s := New(t, cfg)
		s.Fill("orders", record.Record{Value: make([]byte, size)})
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.MinBytes, fetch.MaxBytes = 4, 1, 2*size
		rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		rt.Topic, rp.PartitionMaxBytes = "orders", 2*size
		rt.Partitions = append(rt.Partitions, rp)
		fetch.Topics = append(fetch.Topics, rt)
		lazy := dial(t, s)
		for range fetches {
			lazy.send(fetch)
		}
		s.WaitRequests(1, Answered(kafka.Fetch))
		s.Advance(time.Hour)
		s.Advance(time.Hour)
		require.Less(t, len(s.WaitRequests(1, Answered(kafka.Fetch))), fetches)
		other := dial(t, s)
		other.ask(fetch)
		for i := range fetches {
			lazy.next = int32(i + 1)
			resp := lazy.receive(fetch).(*kmsg.FetchResponse)
			require.Greater(t, len(resp.Topics[0].Partitions[0].RecordBatches), size)
		}
	})
}

func TestConnectionsEndFromEitherSide(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		s := New(t, cfg)
		req := kmsg.NewPtrApiVersionsRequest()
		read := func(w *wire) error {
			_, err := w.conn.Read(make([]byte, 1))
			return err
		}
		t.Run("the server's, before it serves", func(t *testing.T) {
			s.Fault(Fault{Close: true})
			w := dial(t, s)
			w.send(req)
			require.Error(t, read(w))
		})
		t.Run("the server's, with an answer on the way", func(t *testing.T) {
			s.Fault(Fault{Close: true, Skip: 1})
			w := dial(t, s)
			w.send(req)
			w.send(req)
			w.next--
			w.receive(req)
			require.Error(t, read(w))
		})
		t.Run("none, though the answer is lost", func(t *testing.T) {
			lost := s.Fault(Fault{DropReply: true})
			w := dial(t, s)
			w.send(req)
			lost.Wait(1)
			require.NoError(t, w.conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			var timeout net.Error
			require.ErrorAs(t, read(w), &timeout)
			require.True(t, timeout.Timeout())
		})
		t.Run("none, though nothing was said for a day", func(t *testing.T) {
			w, begun, other := dial(t, s), dial(t, s), dial(t, s)
			begun.ask(req)
			_, err := begun.conn.Write([]byte{0})
			require.NoError(t, err)
			for range 24 { // the byte has arrived meanwhile
				s.Advance(time.Hour)
				other.ask(req)
			}
			w.ask(req)
			begun.next++
			_, err = begun.conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, begun.next)[1:])
			require.NoError(t, err)
			begun.receive(req)
		})
		t.Run("the client's, for writing", func(t *testing.T) {
			held := s.Fault(Fault{Hold: true})
			w := dial(t, s)
			w.send(req)
			held.Wait(1)
			require.NoError(t, w.conn.(interface{ CloseWrite() error }).CloseWrite())
			held.Release()
			if _, err := io.ReadAll(w.conn); err != nil { // the broker may still send the answer
				require.ErrorIs(t, err, net.ErrClosed)
			}
		})
		t.Run("the client's, at once", func(t *testing.T) {
			held := s.Fault(Fault{Hold: true})
			w := dial(t, s)
			w.send(req)
			held.Wait(1)
			if tcp, ok := w.conn.(*net.TCPConn); ok {
				require.NoError(t, tcp.SetLinger(0)) // a reset
			}
			require.NoError(t, w.conn.Close())
			held.Release()
		})
		dial(t, s).ask(req)
	})
}

func TestManyConnectionsAtOnce(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		s := New(t, cfg)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				w := dial(t, s)
				for range 10 {
					w.ask(kmsg.NewPtrApiVersionsRequest())
				}
				w.conn.Close()
			})
		}
		for range 20 {
			s.Advance(time.Second)
		}
		wg.Wait()
		require.Len(t, s.WaitRequests(1000, Answered(kafka.ApiVersions)), 1000)
	})
}

// Clients may be closed before the server, after it, or never.
func TestClientsAndServerEndInAnyOrder(t *testing.T) {
	for name, cfg := range networks {
		for _, order := range []string{"client first", "server first", "only the server"} {
			t.Run(name+" "+order, func(t *testing.T) {
				var cl *kgo.Client
				if order == "server first" {
					t.Cleanup(func() { cl.Close() })
				}
				cfg.Topics = map[string]int{"orders": 1}
				s := New(t, cfg)
				var err error
				cl, err = kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumeTopics("orders"), kgo.DefaultProduceTopic("orders"))
				require.NoError(t, err)
				require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())
				require.Len(t, consume(t, cl, 1), 1)
				switch order {
				case "client first":
					cl.Close()
				case "only the server":
					t.Cleanup(func() { go cl.Close() }) // while the server ends
				}
			})
		}
	}
}

func TestClientsAreKnownByTheirAddresses(t *testing.T) {
	s := New(t, Config{Clock: true, TLS: true, Users: map[string]string{"alice": "secret"}, Topics: map[string]int{"orders": 1}})
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DialTLSConfig(s.TLS()), kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha512Mechanism()),
		kgo.DefaultProduceTopic("orders"))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())

	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	s = New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}})
	member, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(dialer.DialContext), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
	require.NoError(t, err)
	defer member.Close()
	require.Equal(t, "/127.0.0.2", s.WaitGroup("billing", group.StableWith(1)).Members[0].ClientHost)
}

// Servers with clocks of their own run concurrently, each in its own time.
func TestClocksSideBySide(t *testing.T) {
	for i := range 20 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s, other := New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}}), New(t, Config{Clock: true})
			s.Advance(time.Duration(i) * time.Hour)
			s.Fill("orders", record.String("orders", "", "x"))
			require.GreaterOrEqual(t, time.Until(s.Topic("orders")[0].Timestamp), time.Duration(i)*time.Hour-time.Minute)
			require.Less(t, time.Until(other.Now()), time.Minute)
		})
	}
}
