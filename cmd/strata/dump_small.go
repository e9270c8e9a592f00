package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/vfs"
)

// An entryLine is an entry of a file other than a log: named values in a fixed order.
type entryLine struct {
	Type   string
	File   string
	Fields []field
}

type field struct {
	name  string
	value any
}

// MarshalJSON keeps the order of the fields.
func (l entryLine) MarshalJSON() ([]byte, error) {
	return marshalFields(append([]field{{"type", l.Type}, {"file", l.File}}, l.Fields...))
}

func (l entryLine) writeText(w io.Writer) {
	parts := make([]string, 0, len(l.Fields))
	for _, f := range l.Fields {
		v := f.value
		if ms, ok := v.(int64); ok && (f.name == "timestamp") {
			v = timeText(ms)
		}
		parts = append(parts, fmt.Sprintf("%s %v", f.name, v))
	}
	fmt.Fprintf(w, "  %s\n", strings.Join(parts, ", "))
}

func (d *dumper) entry(kind string, fields ...field) error {
	return d.emit(entryLine{kind, d.name, fields})
}

func (d *dumper) index(f vfs.File, size int64, kind kafkafile.Kind) error {
	base, ok := kafkafile.BaseOffset(d.name)
	if !ok {
		return misuse("%s: the name of an index is its base offset in 20 digits", d.name)
	}
	switch kind {
	case kafkafile.Index:
		return kafkafile.ReadIndex(f, size, func(_ int64, e kafkafile.IndexEntry) error {
			return d.entry("index", field{"offset", base + int64(e.RelativeOffset)}, field{"position", e.Position})
		})
	case kafkafile.TimeIndex:
		return kafkafile.ReadTimeIndex(f, size, func(_ int64, e kafkafile.TimeEntry) error {
			return d.entry("timeindex", field{"timestamp", e.Timestamp}, field{"offset", base + int64(e.RelativeOffset)})
		})
	}
	return kafkafile.ReadTxnIndex(f, size, func(_ int64, e kafkafile.AbortedTxn) error {
		return d.entry("txnindex", field{"producerId", e.ProducerID}, field{"firstOffset", e.FirstOffset}, field{"lastOffset", e.LastOffset},
			field{"lastStableOffset", e.LastStable}, field{"version", e.Version})
	})
}

func (d *dumper) small(f vfs.File, size int64, kind kafkafile.Kind) error {
	p, err := readSmall(f, size)
	if err != nil {
		return err
	}
	switch kind {
	case kafkafile.Snapshot:
		return d.snapshot(p)
	case kafkafile.EpochCheckpoint:
		es, err := kafkafile.ParseEpochs(p)
		return d.entries(len(es), err, func(i int) error {
			return d.entry("epoch", field{"leaderEpoch", es[i].Epoch}, field{"startOffset", es[i].StartOffset})
		})
	case kafkafile.OffsetCheckpoint:
		os, err := kafkafile.ParseOffsets(p)
		return d.entries(len(os), err, func(i int) error {
			return d.entry("checkpoint", field{"topic", os[i].Topic}, field{"partition", os[i].Partition}, field{"offset", os[i].Offset})
		})
	case kafkafile.PartitionMetadata:
		id, number, err := kafkafile.ParsePartitionMetadata(p)
		return d.entries(1, err, func(int) error {
			if number < 0 {
				return d.entry("partition", field{"topicId", uuid(id)})
			}
			return d.entry("partition", field{"topicId", uuid(id)}, field{"partition", number})
		})
	case kafkafile.MetaProperties:
		return d.properties(p)
	case kafkafile.CleanShutdown:
		epoch, err := kafkafile.ParseCleanShutdown(p)
		return d.entries(1, err, func(int) error { return d.entry("cleanShutdown", field{"brokerEpoch", epoch}) })
	}
	return d.state(p)
}

// entries calls fn n times unless err is set.
func (d *dumper) entries(n int, err error, fn func(i int) error) error {
	for i := 0; i < n && err == nil; i++ {
		err = fn(i)
	}
	return err
}

func (d *dumper) snapshot(p []byte) error {
	ps, err := kafkafile.ParseSnapshot(p)
	sort.Slice(ps, func(i, j int) bool { return ps[i].ProducerID < ps[j].ProducerID })
	return d.entries(len(ps), err, func(i int) error {
		e := ps[i]
		return d.entry("producer", field{"producerId", e.ProducerID}, field{"epoch", e.Epoch}, field{"lastSequence", e.LastSequence},
			field{"lastOffset", e.LastOffset}, field{"offsetDelta", e.OffsetDelta}, field{"timestamp", e.Timestamp},
			field{"coordinatorEpoch", e.CoordinatorEpoch}, field{"txnFirstOffset", e.TxnFirstOffset})
	})
}

func (d *dumper) properties(p []byte) error {
	m, err := kafkafile.ParseProperties(p)
	if err != nil {
		return err
	}
	by := "kafka"
	if m.Strata {
		by = "strata"
	}
	return d.entry("properties", field{"writtenBy", by}, field{"version", m.Version}, field{"clusterId", m.ClusterID},
		field{"nodeId", m.NodeID}, field{"directoryId", m.DirectoryID})
}

func (d *dumper) state(p []byte) error {
	s, err := kafkafile.ParseState(p)
	if err != nil {
		return err
	}
	err = d.entry("state", field{"clean", s.Clean}, field{"emptied", s.Emptied}, field{"syncOnAck", s.SyncOnAck}, field{"startOffset", s.StartOffset},
		field{"recoveryPoint", s.RecoveryPoint}, field{"endOffset", s.EndOffset}, field{"lastSegmentSize", s.LastSize}, field{"incarnation", fmt.Sprintf("%016x", s.Incarnation)},
		field{"journalTag", s.JournalTag}, field{"cuts", s.Cuts}, field{"purged", s.Purged},
		field{"purgeId", fmt.Sprintf("%016x", s.PurgeID)}, field{"epochsHash", fmt.Sprintf("%016x", s.EpochsHash)}, field{"identity", fmt.Sprintf("%016x", s.Identity)}, field{"bootId", s.BootID})
	if err == nil && s.FirstEpoch != nil {
		err = d.entry("firstLeaderEpoch", field{"epoch", *s.FirstEpoch}, field{"startOffset", 0})
	}
	return d.entries(len(s.Segments), err, func(i int) error {
		return d.entry("segment", field{"baseOffset", s.Segments[i].BaseOffset}, field{"size", s.Segments[i].Size}, field{"role", s.Segments[i].Role})
	})
}

func uuid(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
