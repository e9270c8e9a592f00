package kafka

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// batch encodes one record as a client does.
func batch(key, value string) []byte {
	var b record.Builder
	b.AppendKV(time.Now().UnixMilli(), []byte(key), []byte(value), nil)
	p, err := b.AppendBatch(nil, record.None)
	if err != nil {
		panic(err)
	}
	return p
}

// produceOne returns a produce request with one batch for partition 0.
func produceOne(version int16, name string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	t := kmsg.NewProduceRequestTopic()
	t.Topic = name
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = []kmsg.ProduceRequestTopicPartition{p}
	req.Topics, req.Acks, req.TimeoutMillis = []kmsg.ProduceRequestTopic{t}, -1, 10_000
	req.SetVersion(version)
	return req
}

// alive checks that a normal client is served.
func alive(t *testing.T, addr string) {
	t.Helper()
	c := dial(t, addr)
	defer c.nc.Close()
	got := c.ask(produceOne(9, "alive", batch("k", "v"))).(*kmsg.ProduceResponse)
	require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
}

// hostileServer serves topics alive and t. It closes no connection for lack of bytes, unless
// limits set a time.
func hostileServer(t *testing.T, limits Limits) (*Server, string) {
	t.Helper()
	for _, d := range []*time.Duration{&limits.FirstRequest, &limits.WholeRequest, &limits.Idle, &limits.SlowReader} {
		if *d == 0 {
			*d = time.Hour
		}
	}
	s, addr := serve(t, Config{Limits: limits})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "alive", topic.Config{}))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{}))
	return s, addr
}

// W1
func TestFrameSizesThatCannotBeCloseTheConnection(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	for _, size := range []int32{-1, math.MinInt32, 0, 3, 9, math.MaxInt32, 100<<20 + 1} {
		c := dial(t, addr)
		_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(size)), 0, 0, 0, 9, 0, 0))
		require.NoError(t, err)
		c.closed()
	}
	alive(t, addr)
}

// W18. The fetch before the bad frame would wait for a day, and is answered at once.
func TestWhatCameBeforeARequestThatEndsTheConnectionIsAnswered(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	fetch := want(11, "alive", 0)
	fetch.MaxWaitMillis, fetch.MinBytes = int32(24*time.Hour/time.Millisecond), 1
	for name, frame := range map[string][]byte{
		"no size":          {0xff, 0xff, 0xff, 0xff, 0, 0},
		"an unknown API":   {0, 0, 0, 10, 0x70, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"a body cut short": {0, 0, 0, 10, 0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			sent := c.send(fetch)
			_, err := c.nc.Write(frame)
			require.NoError(t, err)
			c.receive(fetch, sent)
			c.closed()
		})
	}
}

// A handler returns no answer when the server is closing.
func TestNoAnswerIsTakenForThatOfARequestWithoutOne(t *testing.T) {
	s, addr := serve(t, Config{VersionCaps: map[int16]int16{int16(ListGroups): 4}}) // with a table of its own
	s.apis[int16(ListGroups)].serve = func(*call, kmsg.Request) kmsg.Response { return nil }
	c := dial(t, addr)
	c.send(kmsg.NewPtrListGroupsRequest())
	c.send(kmsg.NewPtrMetadataRequest())
	c.closed()
}

// W1
func TestMemoryFollowsTheBytesReceived(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 50 {
		c := dial(t, addr)
		_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, 99<<20), 0, 0, 0, 9, 0, 0, 0, 1))
		require.NoError(t, err)
	}
	alive(t, addr)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
}

// W2
func TestOtherProtocolsCloseTheConnection(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	random[0] = 0xff
	for name, hello := range map[string][]byte{
		"HTTP": []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "TLS": {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, "SSH": []byte("SSH-2.0-OpenSSH_9.9\r\n"), "random": random,
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			_, err := c.nc.Write(hello)
			require.NoError(t, err)
			c.closed()
		})
	}
	alive(t, addr)
}

// W3
func TestUnknownApisAndVersionsCloseTheConnection(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	for _, kv := range [][2]int16{{-1, 0}, {999, 0}, {4, 1}, {52, 0}, {int16(Metadata), 99}, {int16(Metadata), -1}, {int16(Produce), 2}} {
		c := dial(t, addr)
		frame := binary.BigEndian.AppendUint32(nil, 10)
		frame = binary.BigEndian.AppendUint16(frame, uint16(kv[0]))
		frame = binary.BigEndian.AppendUint16(frame, uint16(kv[1]))
		_, err := c.nc.Write(append(frame, 0, 0, 0, 1, 0xff, 0xff))
		require.NoError(t, err)
		c.closed()
	}
	alive(t, addr)
}

// W4
func TestTruncatedRequestsAreAnsweredOrCloseTheConnection(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	for _, req := range []kmsg.Request{filledRequest(Produce, 3), filledRequest(Fetch, 4), filledRequest(ListOffsets, 1), filledRequest(Metadata, 0)} {
		whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 1)[4:]
		for cut := 10; cut < len(whole); cut += max(1, len(whole)/30) {
			c := dial(t, addr)
			_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(cut)), whole[:cut]...))
			require.NoError(t, err)
			c.closed()
			c.nc.Close()
		}
	}
	alive(t, addr)
}

// W5
func TestAbsurdLengthsAreRefusedBeforeMemoryIsTaken(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	head := func(key Key, version int16) []byte {
		return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, uint16(key)), uint16(version)), 0, 0, 0, 1, 0xff, 0xff)
	}
	for name, frame := range map[string][]byte{
		"array":        append(head(Metadata, 1), 0x7f, 0xff, 0xff, 0xff),
		"varint":       append(head(Metadata, 9), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"header tags":  append(head(Metadata, 9), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"tag size":     append(head(Metadata, 9), 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"produce":      append(head(Produce, 9), 0, 0, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x7f),
		"client id":    {0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff},
		"negative ids": {0, 3, 0, 1, 0, 0, 0, 1, 0x80, 0x00},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
			require.NoError(t, err)
			c.closed()
		})
	}
	alive(t, addr)
}

// TestTagsThatAreNotThereCloseTheConnection sends requests that end with a count of four billion
// tags. A lookup of each tag would take a minute of processor time.
func TestTagsThatAreNotThereCloseTheConnection(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	asked := 0
	for _, a := range apis {
		req := kmsg.RequestForKey(int16(a.key))
		req.SetVersion(a.max)
		if !req.IsFlexible() {
			continue
		}
		asked++
		c := dial(t, addr)
		frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[4:]
		frame = append(frame[:len(frame)-1], 0xff, 0xff, 0xff, 0xff, 0x0f)
		_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		require.NoError(t, err)
		c.closed()
		c.nc.Close()
	}
	require.Greater(t, asked, 60)
	alive(t, addr)
}

// poisonBatches returns invalid batches made from a good one. None of them may be appended.
func poisonBatches(good []byte) map[string][]byte {
	change := func(fn func(p []byte) []byte) []byte {
		p := fn(bytes.Clone(good))
		if len(p) > 61 {
			binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		return p
	}
	compressed := func(codec byte, payload []byte) []byte {
		return change(func(p []byte) []byte {
			p = append(p[:61:61], payload...)
			p[22] |= codec
			binary.BigEndian.PutUint32(p[8:], uint32(len(p)-12))
			return p
		})
	}
	var bomb bytes.Buffer
	gz, _ := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range 256 {
		gz.Write(zeros)
	}
	gz.Close()
	return map[string][]byte{
		"wrong crc": slices.Concat(good[:17], []byte{1, 2, 3, 4}, good[21:]),
		// only the CRC shows it
		"flipped value":   append(bytes.Clone(good[:len(good)-2]), good[len(good)-2]^1, good[len(good)-1]),
		"magic 1":         change(func(p []byte) []byte { p[16] = 1; return p }),
		"magic 3":         change(func(p []byte) []byte { p[16] = 3; return p }),
		"length short":    change(func(p []byte) []byte { p[11]--; return p }),
		"length long":     change(func(p []byte) []byte { p[11]++; return p }),
		"length negative": change(func(p []byte) []byte { p[8] = 0xff; return p }),
		"count 2":         change(func(p []byte) []byte { p[60] = 2; return p }),
		"count 0":         change(func(p []byte) []byte { p[60] = 0; return p }),
		"count huge":      change(func(p []byte) []byte { p[57] = 0x7f; return p }),
		"last delta":      change(func(p []byte) []byte { p[26] = 5; return p }),
		"control bit":     change(func(p []byte) []byte { p[22] |= 0x20; return p }),
		"codec 7":         change(func(p []byte) []byte { p[22] |= 7; return p }),
		"garbage gzip":    compressed(1, []byte("no gzip")),
		// claims 4 GiB
		"garbage snappy":   compressed(2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3}),
		"garbage lz4":      compressed(3, []byte("no lz4 at all")),
		"garbage zstd":     compressed(4, []byte("no zstd at all")),
		"gzip bomb":        compressed(1, bomb.Bytes()),
		"two batches":      append(bytes.Clone(good), good...),
		"trailing garbage": append(bytes.Clone(good), 1, 2, 3),
		"half":             good[:len(good)/2],
		"record varint":    change(func(p []byte) []byte { p[61] = 0xff; return p }),
		"base offset 7":    append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, good[8:]...),
		"pid without seq":  change(func(p []byte) []byte { copy(p[43:], []byte{0, 0, 0, 0, 0, 0, 0, 9}); return p }),
		"empty":            {},
	}
}

// W6, W7: poison batches and bombs.
func TestPoisonBatchesAreRefusedAndNothingIsAppended(t *testing.T) {
	s, addr := hostileServer(t, Limits{})
	good := batch("key", "value")
	poison := poisonBatches(good)
	c := dial(t, addr)
	for name, records := range poison {
		req := produceOne(9, "t", records)
		req.Topics[0].Partitions[0].Records = records
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "%s takes memory", name)
		require.NotZero(t, got.ErrorCode, name)
		require.EqualValues(t, -1, got.BaseOffset, name)
		t.Log(name, Code(got.ErrorCode))
	}
	null := c.ask(produceOne(9, "t", nil)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Equal(t, InvalidRecord, Code(null.ErrorCode))
	require.Zero(t, s.cluster.Status("t", 0).HighWatermark)
	ok := c.ask(produceOne(9, "t", good)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Zero(t, ok.ErrorCode)
	require.Zero(t, ok.BaseOffset)
}

// W8
func TestAnOversizeRecordIsRefusedAndTheConnectionGoesOn(t *testing.T) {
	_, addr := hostileServer(t, Limits{})
	var b record.Builder
	b.AppendKV(time.Now().UnixMilli(), nil, make([]byte, 80<<20), nil)
	big, err := b.AppendBatch(nil, record.None)
	require.NoError(t, err)
	c := dial(t, addr)
	got := c.ask(produceOne(9, "t", big)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Equal(t, MessageTooLarge, Code(got.ErrorCode))
	got = c.ask(produceOne(9, "t", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Zero(t, got.ErrorCode)
}

// W11
func TestIdleAndResetConnectionsLeaveNothingBehind(t *testing.T) {
	s, addr := hostileServer(t, Limits{Connections: 600})
	alive(t, addr)
	var all []*client
	for i := range 500 {
		c := dial(t, addr)
		if i%2 == 0 {
			_, err := c.nc.Write([]byte{0, 0}) // slow loris: never the rest
			require.NoError(t, err)
		}
		all = append(all, c)
	}
	alive(t, addr)
	for _, c := range all {
		c.nc.(*net.TCPConn).SetLinger(0)
		c.nc.Close()
	}
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	}, 10*time.Second, time.Millisecond)
	alive(t, addr)
}

// W11
func TestTooManyConnectionsAreRefusedAndOthersGoOn(t *testing.T) {
	_, addr := hostileServer(t, Limits{Connections: 3})
	first := dial(t, addr)
	first.ask(produceOne(9, "t", batch("k", "v")))
	for range 2 {
		dial(t, addr).ask(produceOne(9, "t", batch("k", "v")))
	}
	dial(t, addr).closed()
	first.ask(produceOne(9, "t", batch("k", "v")))
}

// W11
func TestRefusedConnectionsLeaveNothingBehind(t *testing.T) {
	s := NewServer(openCluster(t), Config{Limits: Limits{Connections: 1}})
	defer s.Close()
	b := &broker{id: 1} // not served: all are refused
	refuse := func(n int) (heap uint64) {
		for range n {
			near, far := net.Pipe()
			s.start(&listener{broker: b, name: "PLAINTEXT"}, near)
			_, err := far.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := refuse(100)
	const n = 5000
	after := refuse(n)
	require.Less(t, int64(after)-int64(before), int64(100*n), "bytes")
}

// W11
func TestAConnectionWithoutAFirstRequestIsClosed(t *testing.T) {
	inBubble(t, Config{Limits: Limits{FirstRequest: 10 * time.Second, WholeRequest: 3 * time.Second}}, func(t *testing.T, s *groupServer) {
		start := time.Now()
		dialGroups(t, s).closed()
		require.Equal(t, 10*time.Second, time.Since(start))
		c := dialGroups(t, s)
		c.ask(produceOne(9, "t", batch("k", "v")))
		start = time.Now()
		_, err := c.nc.Write([]byte{0, 0, 1, 0, 0, 0}) // the rest never comes
		require.NoError(t, err)
		c.closed()
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// W11
func TestALargeRequestMayArriveSlowly(t *testing.T) {
	inBubble(t, Config{Limits: Limits{WholeRequest: 3 * time.Second}}, func(t *testing.T, s *groupServer) {
		c := dialGroups(t, s)
		c.ask(produceOne(9, "t", batch("k", "v")))
		send := func(n int, pause time.Duration) error {
			request := make([]byte, 4+n) // not Kafka's, but it is read to its end
			binary.BigEndian.PutUint32(request, uint32(n))
			for len(request) > 0 {
				part := min(len(request), 40_000)
				if _, err := c.nc.Write(request[:part]); err != nil {
					return err
				}
				time.Sleep(pause)
				request = request[part:]
			}
			return nil
		}
		start := time.Now()
		require.NoError(t, send(900_000, time.Second))
		require.Equal(t, 23*time.Second, time.Since(start))
		c = dialGroups(t, s)
		c.ask(produceOne(9, "t", batch("k", "v")))
		start = time.Now()
		require.Error(t, send(900_000, 2*time.Second))
		require.Less(t, time.Since(start), 10*time.Second, "64 KiB take more than 3 s")
	})
}

// W11
func TestAnIdleConnectionIsClosedUnlessItWaitsForAnAnswer(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Idle: 5 * time.Second}}, func(t *testing.T, s *groupServer) {
		idle, waits := dialGroups(t, s), dialGroups(t, s)
		start := time.Now()
		for _, c := range []*groupClient{idle, waits} {
			c.ask(produceOne(9, "t", batch("k", "v")))
		}
		poll := fetchFrom("t", 2, 1<<20)
		poll.MinBytes, poll.MaxWaitMillis = 1, 12_000
		correlation := waits.send(poll)
		idle.closed()
		require.Equal(t, 5*time.Second, time.Since(start))
		waits.receive(poll, correlation)
		require.Equal(t, 12*time.Second, time.Since(start))
		waits.closed()
		require.Equal(t, 17*time.Second, time.Since(start), "idle since the answer")
		dialGroups(t, s).ask(produceOne(9, "t", batch("k", "v")))
	})
}

// W12
func TestReadersThatNeverReadHoldOneAnswerEach(t *testing.T) {
	s, addr := hostileServer(t, Limits{SlowReader: 200 * time.Millisecond, RequestBytes: 16 << 20, InFlightBytes: 64 << 20})
	runtime.GC() // removes the garbage of other tests
	c := dial(t, addr)
	value := string(make([]byte, 900<<10))
	for range 20 {
		c.ask(produceOne(9, "t", batch("k", value)))
	}
	for i := range 8 {
		r := dial(t, addr)
		go func() {
			for range 50 {
				req := kmsg.NewPtrFetchRequest()
				ft := kmsg.NewFetchRequestTopic()
				ft.Topic = "t"
				fp := kmsg.NewFetchRequestTopicPartition()
				fp.PartitionMaxBytes = 50 << 20
				ft.Partitions = []kmsg.FetchRequestTopicPartition{fp}
				req.Topics, req.MaxBytes, req.SessionEpoch = []kmsg.FetchRequestTopic{ft}, 50<<20, -1
				req.SetVersion(11)
				if _, err := r.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(fmt.Sprint(i))).AppendRequest(nil, req, 1)); err != nil {
					return
				}
			}
		}()
	}
	peak := uint64(0)
	require.Eventually(t, func() bool { // all are closed, because they read nothing
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 1
	}, time.Minute, 10*time.Millisecond)
	t.Logf("peak %d MiB", peak>>20)
	require.Less(t, peak, uint64(512<<20)) // 8 x 50 answers of 18 MiB would be 7 GiB
	alive(t, addr)
}
