package kfake

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// A SyntheticBatch describes the batch of SyntheticFetch. The zero SyntheticBatch has 1 MiB of
// values of 100 bytes, without compression.
type SyntheticBatch struct {
	Batch       []byte               // complete batch of format 2, served unchanged; the other fields must be zero then
	Records     int                  // number of records; 0: as many as fit in 1 MiB
	RecordBytes int                  // size of each value; 0: 100
	RandomFrac  float64              // part of each value that is random, 0 to 1; the same in each run
	Compression kgo.CompressionCodec // zero: none
}

const (
	cannedSize   = 1 << 20  // size of the records, if their number is not given
	cannedMax    = 64 << 20 // bytes of values, so that a mistyped number does not fill the memory
	cannedValue  = 100
	cannedEnd    = 1 << 62 // end offset of the partitions
	cannedTimeMs = 1_600_000_000_000
)

// canned answers fetches with copies of one batch.
type canned struct {
	batch   []byte
	records int64
}

func newCanned(b SyntheticBatch) (*canned, error) {
	if b.Batch != nil {
		if b.Records != 0 || b.RecordBytes != 0 || b.RandomFrac != 0 || b.Compression != (kgo.CompressionCodec{}) {
			return nil, errors.New("SyntheticBatch: Batch is served as it is, the other fields must be zero")
		}
		batch, err := record.ParseUnverified(b.Batch)
		switch {
		case err != nil:
			return nil, fmt.Errorf("SyntheticBatch: %w", err)
		case batch.RecordCount < 1:
			return nil, errors.New("SyntheticBatch: a batch without records")
		}
		return &canned{b.Batch, int64(batch.RecordCount)}, nil
	}
	size := b.RecordBytes
	if size == 0 {
		size = cannedValue
	}
	switch {
	case b.Records < 0 || b.RecordBytes < 0:
		return nil, errors.New("SyntheticBatch: a negative number")
	case math.IsNaN(b.RandomFrac) || b.RandomFrac < 0 || b.RandomFrac > 1:
		return nil, fmt.Errorf("SyntheticBatch: RandomFrac %v is not from 0 to 1", b.RandomFrac)
	case size > cannedMax || b.Records > cannedMax/size:
		return nil, fmt.Errorf("SyntheticBatch: more than %d bytes of values", cannedMax)
	}
	compressor, err := kgo.DefaultCompressor(b.Compression)
	if err != nil {
		return nil, fmt.Errorf("SyntheticBatch: Compression: %w", err)
	}
	codec := record.None
	if compressor != nil { // the codec has no method that returns its number
		_, used := compressor.Compress(new(bytes.Buffer), nil)
		codec = record.Codec(used)
	}
	return build(b, size, codec)
}

// build makes a batch of values of a size.
func build(b SyntheticBatch, size int, codec record.Codec) (*canned, error) {
	var builder record.Builder
	random := rand.New(rand.NewPCG(0, 0))
	fixed := size - int(float64(size)*b.RandomFrac)
	n := 0
	for ; n < b.Records || b.Records == 0 && (n == 0 || builder.Size() < cannedSize); n++ {
		value := make([]byte, size)
		fill(value[:fixed], n)
		for i := fixed; i < size; i++ {
			value[i] = byte(random.Uint32())
		}
		if !builder.AppendKV(cannedTimeMs, nil, value, nil) {
			return nil, errors.New("SyntheticBatch: the batch gets too large")
		}
	}
	batch, err := builder.Build(codec)
	if err != nil {
		return nil, err
	}
	return &canned{batch, int64(n)}, nil
}

// fill fills p with repetitions of a number and a space.
func fill(p []byte, n int) {
	for i, text := 0, fmt.Sprintf("%d ", n); i < len(p); {
		i += copy(p[i:], text)
	}
}

// action returns the response to a request that replaces the log's. It returns false for a request
// that is served as usual.
func (s *canned) action(c *Cluster, x *kafka.Exchange) (a kafka.Action, ok bool) {
	switch q := x.Request.(type) {
	case *kmsg.FetchRequest:
		// Without a session the response has all partitions, even without new records.
		now := *q
		now.SessionID, now.SessionEpoch, now.MaxWaitMillis, now.MinBytes = 0, -1, 0, 0
		a.Serve = &now
		a.Edit = func(req kmsg.Request, resp kmsg.Response) {
			c.translate(req, resp)
			s.fetch(c, req.(*kmsg.FetchRequest), resp.(*kmsg.FetchResponse))
		}
		return a, true
	case *kmsg.ListOffsetsRequest:
		a.Edit = func(req kmsg.Request, resp kmsg.Response) {
			listOffsets(req.(*kmsg.ListOffsetsRequest), resp.(*kmsg.ListOffsetsResponse))
		}
		return a, true
	}
	return a, false
}

// fetch fills the response to a fetch with copies of the batch.
func (s *canned) fetch(c *Cluster, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := t.Topic
		if name == "" {
			name, _ = c.inside().TopicName(t.TopicID)
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if code := kafka.Code(p.ErrorCode); code != 0 && code != kafka.OffsetOutOfRange {
				continue
			}
			asked := asked(req, t, p.Partition)
			if asked == nil {
				continue
			}
			_, epoch, err := c.inside().LeaderOf(record.TopicPartition{Topic: name, Partition: p.Partition})
			if err != nil {
				continue
			}
			p.ErrorCode, p.LogStartOffset, p.HighWatermark, p.LastStableOffset, p.AbortedTransactions = 0, 0, cannedEnd, cannedEnd, nil
			p.RecordBatches = s.copies(asked.FetchOffset, epoch, int(asked.PartitionMaxBytes))
		}
	}
}

// asked returns the part of a fetch request for a partition.
func asked(req *kmsg.FetchRequest, of *kmsg.FetchResponseTopic, partition int32) *kmsg.FetchRequestTopicPartition {
	for i := range req.Topics {
		t := &req.Topics[i]
		if t.Topic != of.Topic || t.TopicID != of.TopicID {
			continue
		}
		for j := range t.Partitions {
			if t.Partitions[j].Partition == partition {
				return &t.Partitions[j]
			}
		}
	}
	return nil
}

// copies returns as many copies of the batch as fit in limit bytes, at least one. Their offsets
// begin at offset.
func (s *canned) copies(offset int64, epoch int32, limit int) (all []byte) {
	for at := int64(0); at == 0 || len(all)+len(s.batch) <= limit; at++ {
		all = append(all, s.batch...)
		one := all[len(all)-len(s.batch):]
		record.SetBaseOffset(one, offset+at*s.records)
		record.SetLeaderEpoch(one, epoch)
	}
	return all
}

// listOffsets sets the start and end offsets of partitions in a response.
func listOffsets(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) {
	timestamps := map[string]map[int32]int64{}
	for _, t := range req.Topics {
		timestamps[t.Topic] = map[int32]int64{}
		for _, p := range t.Partitions {
			timestamps[t.Topic][p.Partition] = p.Timestamp
		}
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			switch {
			case p.ErrorCode != 0:
			case timestamps[t.Topic][p.Partition] == -1:
				p.Offset = cannedEnd
			case timestamps[t.Topic][p.Partition] == -2:
				p.Offset = 0
			}
		}
	}
}
