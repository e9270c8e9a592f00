package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wireLimit is the cheapest broker that franz-go accepts: an upper bound for the client and
// loopback TCP on this machine.
type wireLimit struct {
	ln      net.Listener
	port    int32
	mu      sync.Mutex
	end     int64
	batches []wireBatch
	grown   chan struct{}
}

type wireBatch struct {
	base, n int64
	raw     []byte
}

var wireVersions = map[int16]int16{0: 9, 1: 11, 2: 5, 3: 8, 18: 3, 22: 4}

func (w *wireLimit) Start(string) (_ []string, err error) {
	if w.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	w.grown = make(chan struct{})
	w.port = int32(w.ln.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			c, err := w.ln.Accept()
			if err != nil {
				return
			}
			go w.serve(c)
		}
	}()
	return []string{w.ln.Addr().String()}, nil
}

func (w *wireLimit) Stop() { w.ln.Close() }

func (w *wireLimit) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	var head [4]byte
	var out []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		key, ver := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
		req := kmsg.RequestForKey(key)
		req.SetVersion(ver)
		body := b[10+max(0, int(int16(binary.BigEndian.Uint16(b[8:])))):]
		if req.IsFlexible() {
			body = body[1:]
		}
		out = append(out[:0], 0, 0, 0, 0)
		out = append(out, b[4:8]...)
		if req.IsFlexible() && key != 18 {
			out = append(out, 0)
		}
		if key == 18 && ver > 3 {
			req.SetVersion(0)
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			resp.ErrorCode = 35
			out = resp.AppendTo(out)
		} else if err := req.ReadFrom(body); err != nil {
			return
		} else {
			out = w.handle(req).AppendTo(out)
		}
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (w *wireLimit) handle(req kmsg.Request) kmsg.Response {
	kresp := req.ResponseKind()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kresp.(*kmsg.ApiVersionsResponse)
		for k, v := range wireVersions {
			a := kmsg.NewApiVersionsResponseApiKey()
			a.ApiKey, a.MaxVersion = k, v
			resp.ApiKeys = append(resp.ApiKeys, a)
		}
	case *kmsg.MetadataRequest:
		resp := kresp.(*kmsg.MetadataResponse)
		b, t, p := kmsg.NewMetadataResponseBroker(), kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		b.Host, b.Port = "127.0.0.1", w.port
		t.Topic = kmsg.StringPtr("bench")
		p.Replicas, p.ISR = []int32{0}, []int32{0}
		t.Partitions = append(t.Partitions, p)
		resp.Brokers, resp.Topics = append(resp.Brokers, b), append(resp.Topics, t)
	case *kmsg.InitProducerIDRequest:
		kresp.(*kmsg.InitProducerIDResponse).ProducerID = 1
	case *kmsg.ListOffsetsRequest:
		resp := kresp.(*kmsg.ListOffsetsResponse)
		t, p := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		t.Topic, p.Offset = "bench", 0
		if req.Topics[0].Partitions[0].Timestamp != -2 {
			w.mu.Lock()
			p.Offset = w.end
			w.mu.Unlock()
		}
		t.Partitions = append(t.Partitions, p)
		resp.Topics = append(resp.Topics, t)
	case *kmsg.ProduceRequest:
		w.produce(req, kresp.(*kmsg.ProduceResponse))
	case *kmsg.FetchRequest:
		w.fetch(req, kresp.(*kmsg.FetchResponse))
	}
	return kresp
}

func (w *wireLimit) produce(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
	raw := req.Topics[0].Partitions[0].Records
	n := int64(binary.BigEndian.Uint32(raw[57:]))
	w.mu.Lock()
	base := w.end
	binary.BigEndian.PutUint64(raw, uint64(base))
	w.batches = append(w.batches, wireBatch{base, n, raw})
	w.end += n
	close(w.grown)
	w.grown = make(chan struct{})
	w.mu.Unlock()
	t, p := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
	t.Topic, p.BaseOffset = "bench", base
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
}

// fetch waits for records, at most for the request's MaxWaitMillis.
func (w *wireLimit) fetch(req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	if len(req.Topics) == 0 {
		return
	}
	rp := req.Topics[0].Partitions[0]
	t, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	timeout := time.After(time.Duration(req.MaxWaitMillis) * time.Millisecond)
wait:
	for {
		w.mu.Lock()
		i, grown := w.find(rp.FetchOffset), w.grown
		last, size := i, 0
		for ; last < len(w.batches) && (last == i || size+len(w.batches[last].raw) <= int(rp.PartitionMaxBytes)); last++ {
			size += len(w.batches[last].raw)
		}
		p.RecordBatches = make([]byte, 0, size)
		for _, b := range w.batches[i:last] {
			p.RecordBatches = append(p.RecordBatches, b.raw...)
		}
		p.HighWatermark, p.LastStableOffset = w.end, w.end
		w.mu.Unlock()
		if len(p.RecordBatches) > 0 {
			break
		}
		select {
		case <-grown:
		case <-timeout:
			break wait
		}
	}
	t.Topic, t.Partitions = "bench", append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
}

// find returns the index of the batch with offset. The caller holds the mutex.
func (w *wireLimit) find(offset int64) int {
	lo, hi := 0, len(w.batches)
	for lo < hi {
		if m := (lo + hi) / 2; w.batches[m].base+w.batches[m].n <= offset {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}
