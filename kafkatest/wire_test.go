package kafkatest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// A wire is a client connection that sends only the requests of the test.
type wire struct {
	t    testing.TB
	conn net.Conn
	next int32
}

func dial(t testing.TB, s *Server) *wire {
	conn, err := s.Dial(testContext(t), "tcp", s.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &wire{t: t, conn: conn}
}

// ask sends a request in its version and returns the answer.
func (w *wire) ask(req kmsg.Request) kmsg.Response {
	w.send(req)
	return w.receive(req)
}

func (w *wire) send(req kmsg.Request) {
	w.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, w.next)
	_, err := w.conn.Write(frame)
	require.NoError(w.t, err)
}

func (w *wire) receive(req kmsg.Request) kmsg.Response {
	var size [4]byte
	_, err := io.ReadFull(w.conn, size[:])
	require.NoError(w.t, err)
	p := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(w.conn, p)
	require.NoError(w.t, err)
	require.Equal(w.t, uint32(w.next), binary.BigEndian.Uint32(p))
	p = p[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != int16(kafka.ApiVersions) {
		require.Zero(w.t, p[0], "tags in the header")
		p = p[1:]
	}
	require.NoError(w.t, resp.ReadFrom(p))
	return resp
}

// offered returns the API versions that s offers.
func offered(t testing.TB, s *Server) []kmsg.ApiVersionsResponseApiKey {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "wire", "1"
	return dial(t, s).ask(req).(*kmsg.ApiVersionsResponse).ApiKeys
}

func TestServedAPIsAreAllTested(t *testing.T) {
	var keys []kafka.Key
	for _, k := range offered(t, New(t, Config{Pipe: true})) {
		keys = append(keys, kafka.Key(k.ApiKey))
	}
	require.Subset(t, served, keys)
	t.Logf("named, but not offered: %d", len(served)-len(keys))
}

// floor has the versions below which an API is offered but not served. Kafka does so with Produce
// for old clients.
var floor = map[kafka.Key]int16{kafka.Produce: 3}

func TestErrorIsAnsweredInEveryVersionThatIsOffered(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"Topic-0": 2, "Topic-1": 2}})
	for _, k := range offered(t, s) {
		key := kafka.Key(k.ApiKey)
		for v := max(k.MinVersion, floor[key]); v <= k.MaxVersion; v++ {
			t.Run(fmt.Sprintf("%s v%d", key, v), func(t *testing.T) {
				req := sampleRequest(t, key, v)
				if produce, ok := req.(*kmsg.ProduceRequest); ok {
					produce.Acks = -1
				}
				fault := s.Fault(Fault{APIs: []kafka.Key{key}, Code: kafka.UnknownServerError})
				defer fault.Remove()
				resp := dial(t, s).ask(req)
				require.Equal(t, 1, fault.Hits())
				if key == kafka.Metadata && v < 10 || key == kafka.DescribeTopicPartitions {
					require.Contains(t, Codes(resp), kafka.UnknownServerError)
					return
				}
				// the server's own answer to an unknown topic id
				if key == kafka.Metadata {
					return
				}
				require.Equal(t, []kafka.Code{kafka.UnknownServerError}, Codes(resp))
			})
		}
	}
}

func TestFaultsKeepTheOrderOfAnswers(t *testing.T) {
	s := New(t, Config{Pipe: true})
	w := dial(t, s)
	held := s.Fault(Fault{APIs: []kafka.Key{kafka.InitProducerID}, Hold: true})
	first, second := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrInitProducerIDRequest()
	w.send(first)
	w.send(second)
	held.Wait(1)
	held.Release()
	for i := range 2 {
		w.next = int32(i + 1)
		w.receive(first)
	}
}

func TestUnacknowledgedProduceFaultCutsTheConnection(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
	s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Code: kafka.NotLeaderOrFollower})
	w := dial(t, s)
	w.send(produceRequest(0, target{topic: "a"}))
	_, err := w.conn.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}
