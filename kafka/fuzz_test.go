package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/topic"
)

// panics is a slog.Handler that counts the log lines of conn.logPanic.
type panics struct {
	slog.Handler
	n atomic.Int32
	t testing.TB
}

func (p *panics) Enabled(context.Context, slog.Level) bool { return true }

func (p *panics) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "panic" || a.Key == "stack" {
			p.n.Add(1)
			p.t.Log(a.Value)
		}
		return true
	})
	return nil
}

// fuzzVariable names the API that FuzzRequest sends ("Fetch"); empty means all APIs.
const fuzzVariable = "STRATA_FUZZ_API"

// FuzzRequest sends one frame of arbitrary bytes to a server. The server answers or closes the
// connection, and never panics.
func FuzzRequest(f *testing.F) {
	only := os.Getenv(fuzzVariable)
	seeds := 0
	for _, req := range seedRequests() {
		if only == "" || Key(req.Key()).String() == only {
			f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("seed")).AppendRequest(nil, req, 1)[4:])
			seeds++
		}
	}
	require.NotZero(f, seeds, "no API is called %q", only)
	cluster, err := strata.Open(strata.Config{})
	require.NoError(f, err)
	f.Cleanup(func() { cluster.Close() })
	require.NoError(f, cluster.CreateTopic(f.Context(), "orders", topic.Config{Partitions: 2}))
	seen := &panics{Handler: slog.DiscardHandler}
	s := NewServer(cluster, Config{Logger: slog.New(seen), NoAutoCreate: true, Telemetry: Telemetry{Receive: func(TelemetryPush) {}}, Limits: Limits{InFlightBytes: 16 << 20, RequestBytes: 1 << 20}})
	f.Cleanup(func() { s.Close() })
	b := s.newBroker(cluster.Controller())
	s.brokers[b.id] = b
	f.Fuzz(func(t *testing.T, frame []byte) {
		if only != "" && (len(frame) < 2 || Key(binary.BigEndian.Uint16(frame)).String() != only) {
			return
		}
		seen.t = t
		before := seen.n.Load()
		ours, theirs := net.Pipe()
		s.start(&listener{broker: b, name: "PLAINTEXT"}, theirs)
		go func() {
			ours.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
			// a JoinGroup that waits is no fault
			ours.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		}()
		io.CopyN(io.Discard, ours, 8)
		ours.Close()
		require.Equal(t, before, seen.n.Load(), "panics")
	})
}
