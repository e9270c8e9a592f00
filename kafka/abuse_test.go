package kafka

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// abused is a server in its own process that receives invalid input, while a normal client has its
// records acknowledged.
type abused struct {
	*process
	good  *client
	acked int64
}

// goOn has one more record acknowledged. Its offset proves that nothing else was appended.
func (a *abused) goOn() {
	a.t.Helper()
	got := a.good.ask(produceOne(9, "kept", batch("k", strconv.FormatInt(a.acked, 10)))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	require.Zero(a.t, got.ErrorCode)
	require.Equal(a.t, a.acked, got.BaseOffset)
	a.acked++
}

// throw writes p on a new connection and waits at most 20 ms until the server answers or closes
// it.
func (a *abused) throw(p []byte) {
	a.t.Helper()
	c := dial(a.t, a.addr)
	defer c.nc.Close()
	if _, err := c.nc.Write(p); err != nil {
		return // it is closed already
	}
	c.nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	c.nc.Read(make([]byte, 4))
}

func framed4(p []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func (a *abused) frames() {
	for _, size := range []int32{-1, math.MinInt32, 0, 3, 9, math.MaxInt32, 99 << 20} {
		a.throw(append(binary.BigEndian.AppendUint32(nil, uint32(size)), 0, 0, 0, 9, 0, 0))
	}
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.9\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\x00\x00\x00\x0a\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"} {
		a.throw([]byte(hello))
	}
}

// requests sends a truncated request of every API, and requests whose numbers are the smallest and
// the largest.
func (a *abused) requests() {
	for _, api := range apis {
		whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, filledRequest(api.key, api.max), 1)[4:]
		a.throw(framed4(whole[:10+(len(whole)-10)/2]))
		for _, n := range []int64{math.MinInt64, math.MaxInt64, -2} {
			req := filledRequest(api.key, api.max)
			setNumbers(reflect.ValueOf(req).Elem(), n)
			req.SetVersion(api.max)
			a.throw(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 1))
		}
	}
}

// setNumbers sets every number in v to n, or to the closest number of its type.
func setNumbers(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" {
				setNumbers(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			setNumbers(v.Elem(), n)
		}
	case reflect.Slice:
		for i := range v.Len() {
			setNumbers(v.Index(i), n)
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		limit := int64(math.MaxInt64) >> (64 - v.Type().Bits())
		v.SetInt(max(min(n, limit), -limit-1))
	}
}

// names uses paths and other invalid names for topics, groups and transactional ids.
func (a *abused) names() {
	c := dial(a.t, a.addr)
	for _, name := range []string{"../../up", "a/b", "a\x00b", "a\nb", ".", "..", strings.Repeat("n", 250), "C:\\x", ""} {
		create := kmsg.NewPtrCreateTopicsRequest()
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, 1, 1
		create.Topics, create.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{ct}, 1000
		create.SetVersion(5)
		require.Equal(a.t, InvalidTopicException, Code(c.ask(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode), "%q", name)

		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = name, -1
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "kept", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1, LeaderEpoch: -1}}}}
		commit.SetVersion(7)
		c.ask(commit) // a group id may be any string

		init := kmsg.NewPtrInitProducerIDRequest()
		init.TransactionalID, init.TransactionTimeoutMillis = &name, 1000
		init.SetVersion(4)
		require.NotZero(a.t, c.ask(init).(*kmsg.InitProducerIDResponse).ErrorCode, "%q", name)
	}
}

// producers requests many producer ids, and writes with as many ids that were not allocated.
func (a *abused) producers(ids int) {
	const ahead = 100
	c := dial(a.t, a.addr)
	many := func(n int, req func(i int) kmsg.Request, check func(kmsg.Response)) {
		for i := 0; i < n; i += ahead {
			var sent []kmsg.Request
			var ids []int32
			for j := range ahead {
				r := req(i + j)
				sent, ids = append(sent, r), append(ids, c.send(r))
			}
			for j, r := range sent {
				check(c.receive(r, ids[j]))
			}
		}
	}
	many(ids/5, func(int) kmsg.Request {
		init := kmsg.NewPtrInitProducerIDRequest()
		init.ProducerID, init.ProducerEpoch, init.TransactionTimeoutMillis = -1, -1, 1000
		init.SetVersion(4)
		return init
	}, func(r kmsg.Response) { require.Zero(a.t, r.(*kmsg.InitProducerIDResponse).ErrorCode) })
	many(ids, func(i int) kmsg.Request {
		var b record.Builder
		b.SetProducer(int64(i), 0, 0)
		b.AppendKV(time.Now().UnixMilli(), nil, []byte("v"), nil)
		p, err := b.AppendBatch(nil, record.None)
		require.NoError(a.t, err)
		return produceOne(9, "flood", p)
	}, func(r kmsg.Response) { require.Zero(a.t, r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode) })
}

// W9, W10, W13, W14: after all kinds of abuse the server is killed and started again. Every
// acknowledged record is there, and nothing else was written anywhere.
func TestRestartAfterAbuseFindsEveryAcknowledgedRecord(t *testing.T) {
	ids := 10_000
	if raceEnabled {
		ids = 2000 // the rest is about memory, which is not measured then
	}
	if os.Getenv(longVariable) != "" {
		ids = 100_000
	}
	around := t.TempDir()
	dir := filepath.Join(around, "cluster")
	a := &abused{process: startProcess(t, dir)}
	createTopic(t, a.addr, "kept", 1)
	createTopic(t, a.addr, "flood", 1)
	a.good = dial(t, a.addr)
	a.goOn()
	base := a.usage("reset")
	steps := map[string]func(){
		"frames": a.frames, "requests": a.requests, "names": a.names, "producer ids": func() { a.producers(ids) },
		"poison": func() {
			// takes long: a connection has to send something soon
			poison := poisonBatches(batch("key", "value"))
			c := dial(t, a.addr)
			for name, records := range poison {
				require.NotZero(t, c.ask(produceOne(9, "kept", records)).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, name)
			}
		},
		"half-open": func() {
			for range 50 {
				c := dial(t, a.addr)
				_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, 99<<20), 0, 0, 0, 9, 0, 0, 0, 1))
				require.NoError(t, err)
			}
		},
	}
	for name, step := range steps {
		step()
		a.goOn()
		u := a.usage("")
		t.Logf("after %s: resident %d MiB, at most %d MiB so far", name, u.rss>>10, u.peak>>10)
	}
	if u := a.usage(""); !raceEnabled {
		require.Less(t, (u.peak-base.rss)>>10, 128, "MiB on top of what it takes before")
	}
	a.kill()

	begun := time.Now()
	p := startProcess(t, dir)
	t.Logf("serves again after %s", time.Since(begun).Round(time.Millisecond))
	c := dial(t, p.addr)
	for next := int64(0); next < a.acked; {
		got := c.ask(fetchFrom("kept", next, 1<<20)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		require.Zero(t, got.ErrorCode)
		require.Equal(t, a.acked, got.HighWatermark)
		require.NotEmpty(t, got.RecordBatches)
		for rest := got.RecordBatches; len(rest) > 0; {
			b, size, err := record.Parse(rest)
			if errors.Is(err, record.ErrShort) {
				break
			}
			require.NoError(t, err)
			rest = rest[size:]
			it, err := b.Records(0)
			require.NoError(t, err)
			var r record.Record
			for more, err := it.Next(&r); more; more, err = it.Next(&r) {
				require.NoError(t, err)
				require.Equal(t, next, r.Offset)
				require.Equal(t, strconv.FormatInt(next, 10), string(r.Value))
				next++
			}
		}
	}
	entries, err := os.ReadDir(around)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing outside of the cluster's directory")
	left, err := filepath.Glob(filepath.Join(dir, "broker-*", "*up*"))
	require.NoError(t, err)
	require.Empty(t, left)
	again := dial(t, p.addr)
	require.Zero(t, again.ask(produceOne(9, "kept", batch("k", "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}
