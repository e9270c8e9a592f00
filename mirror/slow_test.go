package mirror_test

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// A link has a speed that all its connections share in the direction of the brokers.
type link struct {
	bytesPerSecond int

	mu   sync.Mutex
	free time.Time // when the bytes that were accepted have passed
}

type slowConn struct {
	net.Conn
	link *link
}

func (c slowConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), 4096)]
		time.Sleep(c.link.reserve(len(piece)))
		k, err := c.Conn.Write(piece)
		if n += k; err != nil {
			return n, err
		}
		p = p[k:]
	}
	return n, nil
}

// reserve returns the time until n bytes have passed.
func (l *link) reserve(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * time.Second / time.Duration(l.bytesPerSecond))
	return l.free.Sub(now)
}

// dialSlow opens a client behind a slow link.
func (w *world) dialSlow(l *link, timeout time.Duration) *remote.Cluster {
	w.t.Helper()
	c, err := remote.Open(w.t.Context(), remote.Config{Brokers: w.server.Addrs(), RequestTimeout: timeout, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := w.server.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return slowConn{conn, l}, nil
	}})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, c.Close()) })
	return c
}

// large sends n records of the given size to topic "t".
func large(t *testing.T, b producer.Backend, n, size int) {
	t.Helper()
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	rnd := rand.NewChaCha8([32]byte{1})
	for i := range n {
		value := make([]byte, size)
		_, _ = rnd.Read(value)
		_, err = p.Send(t.Context(), record.Record{Topic: "t", Value: value}.To(int32(i%partitions)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

func TestSlowLinkMakesSteadyProgress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		large(t, w.local, 2000, 10_000)
		f := forward(t, w.local, w.dialSlow(&link{bytesPerSecond: 40_000}, 0), mirror.ForwardConfig{})
		ended, stop := start(t, f)
		began, last := time.Now(), int64(0)
		time.Sleep(10 * time.Minute) // the first transactions were too large
		for f.Stats().Lag != 0 {
			st := f.Stats()
			require.Greater(t, st.Bytes, last, "after %v", time.Since(began))
			last = st.Bytes
			time.Sleep(5 * time.Minute)
		}
		require.Less(t, time.Since(began), 25*time.Minute, "without waste it is 8 minutes")
		require.EqualValues(t, 2000, f.Stats().Records)
		stop()
		require.NoError(t, <-ended)
		same(t, w.local, w.dial())
	})
}

// largestPasses requires that n records of 900 KB reach the target over a link.
func largestPasses(t *testing.T, n, bytesPerSecond int) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		large(t, w.local, n, 900_000)
		far := w.dialSlow(&link{bytesPerSecond: bytesPerSecond}, 2*time.Minute)
		require.NoError(t, forward(t, w.local, far, mirror.ForwardConfig{}).Drain(contextFor(t, 30*time.Minute)))
		time.Sleep(time.Minute)
		same(t, w.local, w.dial())
	})
}

func TestLargestRecordPassesASlowLink(t *testing.T) { largestPasses(t, 6, 40_000) }

// The record takes 36 s, longer than a broker may wait for a small request.
func TestLargestRecordPassesAVerySlowLink(t *testing.T) { largestPasses(t, 3, 25_000) }

func TestTransactionsGrowAgainWhenTheLinkIsFast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		large(t, w.local, 2000, 10_000)
		l := &link{bytesPerSecond: 20_000}
		far := w.dialSlow(l, 0)
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		ended, stop := start(t, f)
		time.Sleep(15 * time.Minute)
		slow := f.Stats()
		require.Positive(t, slow.Aborts)
		require.Positive(t, slow.Lag)
		l.mu.Lock()
		l.bytesPerSecond = 100_000_000
		l.mu.Unlock()
		time.Sleep(5 * time.Minute)
		fast := f.Stats()
		require.EqualValues(t, 0, fast.Lag)
		require.Less(t, fast.Transactions-slow.Transactions, int64(20))
		stop()
		require.NoError(t, <-ended)
		same(t, w.local, w.dial())
	})
}

// unsendable requires that a mirror ends at a record, and has forwarded those before it.
func unsendable(t *testing.T, w *world, far *remote.Cluster, p int32, offset int64, also error) {
	t.Helper()
	for range 2 {
		stop := stopped(t, drain(t, w.local, far), mirror.ErrUnsendable)
		require.ErrorIs(t, stop, also)
		require.Equal(t, mirror.StopError{Mirror: "m", Topic: "t", Partition: p, Offset: offset, Err: stop.Err}, *stop)
		time.Sleep(time.Second)
		require.Len(t, rows(t, far, "t")[p], int(offset), "only the records before it")
	}
}

// negative writes a record with a negative timestamp to partition 1 of topic "t".
func (w *world) negative(ms int64) {
	var b record.Builder
	b.Reset(1 << 20)
	require.True(w.t, b.AppendKV(ms, []byte("k"), []byte("v"), nil))
	batch, err := b.Build(0)
	require.NoError(w.t, err)
	done := make(chan partition.ProduceResult, 1)
	w.local.Produce(&partition.ProduceRequest{
		TopicPartition: tp(1), Batch: batch, Acks: record.AcksAll, Done: func(r partition.ProduceResult) { done <- r },
	})
	require.NoError(w.t, (<-done).Err)
}

// -1 is the timestamp of a record that has none. Kafka stores the others, too.
func TestRecordsWithNegativeTimestampsAreForwarded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		for _, ms := range []int64{-1, -5, -1_700_000_000_000} {
			w.negative(ms)
			fill(t, w.local, 0, 30)
		}
		require.NoError(t, drain(t, w.local, far))
		time.Sleep(time.Second)
		same(t, w.local, far)
		require.EqualValues(t, -5, rows(t, far, "t")[1][11].time)
	})
}

func TestRecordWithATimestampThatTheTargetRejectsStopsTheMirrorThere(t *testing.T) {
	for _, ms := range []int64{-5, math.MinInt64 / 2, time.Time{}.UnixMilli()} {
		bubble(t, func(t *testing.T, w *world) {
			far := w.dial()
			require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, Properties: map[string]string{"message.timestamp.before.max.ms": "900000000000"}}))
			fill(t, w.local, 0, 3000)
			w.negative(-1) // none: in all bounds
			w.negative(ms)
			fill(t, w.local, 3000, 300)
			unsendable(t, w, far, 1, 1001, producer.ErrInvalidTimestamp)
		})
	}
}

func TestRecordThatIsTooLargeForTheTargetStopsTheMirrorThere(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, Properties: map[string]string{"max.message.bytes": "2000"}}))
		fill(t, w.local, 0, 300)
		p, err := producer.New(w.local, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("t", "k", strings.Repeat("x", 3000)).To(2))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		fill(t, w.local, 300, 300)
		unsendable(t, w, far, 2, 100, producer.ErrMessageTooLarge)
	})
}

// A rival is a target at which another mirror runs before the first look at the target topic.
type rival struct {
	mirror.Target
	once sync.Once
	run  func()
}

func (r *rival) ListOffsets(
	ctx context.Context, query map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation,
) (map[record.TopicPartition]partition.OffsetResult, error) {
	if _, ok := query[tp(0)]; ok {
		r.once.Do(r.run)
	}
	return r.Target.ListOffsets(ctx, query, iso)
}

func TestMirrorsThatStartAtTheSameTimeLoseNoPosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		fill(t, w.local, 0, 30)
		far := w.dial()
		ran := false
		target := &rival{Target: w.dial(), run: func() {
			ran = true
			require.NoError(t, drain(t, w.local, far))
			time.Sleep(time.Second)
		}}
		require.NoError(t, drain(t, w.local, target))
		require.True(t, ran)
		fill(t, w.local, 30, 30)
		require.NoError(t, drain(t, w.local, far))
		time.Sleep(time.Second)
		same(t, w.local, far)
	})
}
