package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/topic"
)

// panics is a slog.Handler that counts what conn.logPanic logs.
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

// FuzzRequest sends one frame of arbitrary bytes to a server: it answers or closes, and never panics.
func FuzzRequest(f *testing.F) {
	for _, a := range apis {
		for v := a.min; v <= a.max; v++ {
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("seed")).AppendRequest(nil, req, 1)[4:])
		}
	}
	for _, req := range recordedRequests() {
		f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("seed")).AppendRequest(nil, req, 1)[4:])
	}
	cluster, err := strata.Open(strata.Config{})
	require.NoError(f, err)
	f.Cleanup(func() { cluster.Close() })
	require.NoError(f, cluster.CreateTopic(f.Context(), "orders", topic.Config{Partitions: 2}))
	seen := &panics{Handler: slog.DiscardHandler}
	s := NewServer(cluster, Config{Logger: slog.New(seen), NoAutoCreate: true, Limits: Limits{InFlightBytes: 16 << 20, RequestBytes: 1 << 20}})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, frame []byte) {
		seen.t = t
		before := seen.n.Load()
		ours, theirs := net.Pipe()
		s.start(cluster.Controller(), theirs)
		go func() {
			ours.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
			ours.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // a join that waits is not a fault
		}()
		io.CopyN(io.Discard, ours, 8)
		ours.Close()
		require.Equal(t, before, seen.n.Load(), "panics")
	})
}

// recordedRequests are requests with something in them, as clients send them.
func recordedRequests() []kmsg.Request {
	fetch := kmsg.NewPtrFetchRequest()
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "orders"
	ft.Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	fetch.Topics, fetch.MaxBytes = []kmsg.FetchRequestTopic{ft}, 1<<20
	produce := kmsg.NewPtrProduceRequest()
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic = "orders"
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Records = batch("key", "value")
	pt.Partitions = []kmsg.ProduceRequestTopicPartition{pp}
	produce.Topics, produce.Acks = []kmsg.ProduceRequestTopic{pt}, -1
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "orders", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}
	metadata := kmsg.NewPtrMetadataRequest()
	name := "orders"
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	var all []kmsg.Request
	for _, req := range []kmsg.Request{fetch, produce, list, metadata} {
		req.SetVersion(served(nil)[req.Key()].min)
		all = append(all, req)
	}
	return all
}
