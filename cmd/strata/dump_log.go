package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (d *dumper) log(f vfs.File, size int64) error {
	decode := d.decoder()
	batches, damage := int64(0), false
	end, err := kafkafile.ScanLog(f, size, kafkafile.Visitor{
		Batch: func(pos int64, b *record.Batch) error {
			if b.LastOffset() < d.o.from {
				return nil
			}
			if batches++; d.o.limit > 0 && batches > d.o.limit {
				return errEnough
			}
			return d.batch(pos, b, decode)
		},
		Damage: func(x kafkafile.Damage) error {
			damage = true
			return d.emit(damageLine{"damage", d.name, &x.Pos, x.Size, x.Reason})
		},
		Rewritten: func(pos, next int64) error { return d.emit(rewrittenLine{"rewritten", d.name, pos, next}) },
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if end.Zeros > 0 {
		if err := d.emit(zerosLine{"zeros", d.name, end.Size - end.Zeros, end.Zeros}); err != nil {
			return err
		}
	}
	if damage {
		return errSilent
	}
	return nil
}

func (d *dumper) decoder() func(*record.Record) any {
	decode := d.o.decode
	if name, _, _, ok := kafkafile.SplitPartition(filepath.Dir(d.name)); ok && decode == "auto" {
		switch name {
		case offsets.Topic:
			decode = "offsets"
		case txnlog.Topic:
			decode = "transactions"
		case sharelog.Topic:
			decode = "shares"
		case topic.MetadataTopic:
			decode = "metadata"
		}
	}
	switch decode {
	case "offsets":
		return decodeOffsets
	case "transactions":
		return decodeTransactions
	case "shares":
		return decodeShares
	case "metadata":
		return decodeMetadata
	}
	return func(*record.Record) any { return nil }
}

func (d *dumper) batch(pos int64, b *record.Batch, decode func(*record.Record) any) error {
	if err := d.emit(newBatchLine(d.name, pos, b)); err != nil || !d.o.records || b.IsControl() {
		return err
	}
	it, err := b.Records(0)
	if err != nil {
		return d.emit(damageLine{"damage", d.name, &pos, int64(b.Size()), err.Error()})
	}
	for {
		var r record.Record
		more, err := it.Next(&r)
		if err != nil {
			return d.emit(damageLine{"damage", d.name, &pos, int64(b.Size()), err.Error()})
		}
		if !more {
			return nil
		}
		ts := r.Timestamp.UnixMilli()
		if r.Timestamp.IsZero() {
			ts = -1
		}
		l := recordLine{"record", d.name, r.Offset, ts, r.Key, r.Value, headersOf(r.Headers), decode(&r)}
		if err := d.emit(l); err != nil {
			return err
		}
	}
}

type batchLine struct {
	Type             string `json:"type"`
	File             string `json:"file"`
	Position         int64  `json:"position"`
	Size             int    `json:"size"`
	BaseOffset       int64  `json:"baseOffset"`
	LastOffset       int64  `json:"lastOffset"`
	LeaderEpoch      int32  `json:"leaderEpoch"`
	Records          int32  `json:"records"`
	Codec            string `json:"codec"`
	TimestampType    string `json:"timestampType"`
	MaxTimestamp     int64  `json:"maxTimestamp"`
	DeleteHorizon    int64  `json:"deleteHorizon,omitempty"`
	CRC              string `json:"crc"`
	ProducerID       int64  `json:"producerId"`
	ProducerEpoch    int16  `json:"producerEpoch"`
	BaseSequence     int32  `json:"baseSequence"`
	LastSequence     int32  `json:"lastSequence"`
	Transactional    bool   `json:"transactional"`
	Control          string `json:"control,omitempty"`
	CoordinatorEpoch *int32 `json:"coordinatorEpoch,omitempty"`
}

func newBatchLine(file string, pos int64, b *record.Batch) batchLine {
	l := batchLine{
		Type: "batch", File: file, Position: pos, Size: b.Size(), BaseOffset: b.BaseOffset, LastOffset: b.LastOffset(), LeaderEpoch: b.LeaderEpoch,
		Records: b.RecordCount, Codec: b.Codec().String(), TimestampType: "CreateTime", MaxTimestamp: b.MaxTimestamp, CRC: fmt.Sprintf("%08x", b.CRC),
		ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence, LastSequence: b.LastSequence(),
		Transactional: b.IsTransactional(),
	}
	if b.TimestampType() == record.LogAppendTime {
		l.TimestampType = "LogAppendTime"
	}
	if b.HasDeleteHorizon() {
		l.DeleteHorizon = b.BaseTimestamp
	}
	if b.IsControl() {
		l.Control, l.CoordinatorEpoch = control(b)
	}
	return l
}

// metadataControls are the control records of a controller's log.
var metadataControls = map[record.ControlType]string{
	record.ControlLeaderChange: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER", 5: "KRAFT_VERSION", 6: "KRAFT_VOTERS",
}

func control(b *record.Batch) (string, *int32) {
	kind, epoch, err := b.Control()
	switch {
	case errors.Is(err, record.ErrEmpty):
		return "EMPTY", nil
	case err != nil:
		return "INVALID", nil
	case kind == record.ControlAbort:
		return "ABORT", &epoch
	case kind == record.ControlCommit:
		return "COMMIT", &epoch
	}
	if name, ok := metadataControls[kind]; ok {
		return name, nil
	}
	return fmt.Sprintf("TYPE_%d", kind), nil
}

func (l batchLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %d..%d at %d, %d bytes: %d records, epoch %d, %s, %s %s, crc %s", l.BaseOffset, l.LastOffset, l.Position, l.Size,
		l.Records, l.LeaderEpoch, l.Codec, l.TimestampType, timeText(l.MaxTimestamp), l.CRC)
	if l.DeleteHorizon > 0 {
		fmt.Fprintf(w, ", delete horizon %s", timeText(l.DeleteHorizon))
	}
	if l.ProducerID >= 0 {
		fmt.Fprintf(w, ", producer %d/%d", l.ProducerID, l.ProducerEpoch)
		if l.BaseSequence >= 0 {
			fmt.Fprintf(w, " %d..%d", l.BaseSequence, l.LastSequence)
		}
	}
	if l.Transactional {
		fmt.Fprint(w, ", transactional")
	}
	if l.Control != "" {
		fmt.Fprintf(w, ", %s", l.Control)
	}
	if l.CoordinatorEpoch != nil {
		fmt.Fprintf(w, " by coordinator epoch %d", *l.CoordinatorEpoch)
	}
	fmt.Fprintln(w)
}

type recordLine struct {
	Type      string   `json:"type"`
	File      string   `json:"file"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       data     `json:"key"`
	Value     data     `json:"value"`
	Headers   []header `json:"headers,omitempty"`
	Decoded   any      `json:"decoded,omitempty"`
}

func (l recordLine) writeText(w io.Writer) {
	if l.Decoded != nil {
		fmt.Fprintf(w, "    %d %s %s\n", l.Offset, timeText(l.Timestamp), plain(l.Decoded))
		return
	}
	fmt.Fprintf(w, "    %d %s key %s value %s%s\n", l.Offset, timeText(l.Timestamp), l.Key, l.Value, headersText(l.Headers))
}

type zerosLine struct {
	Type     string `json:"type"`
	File     string `json:"file"`
	Position int64  `json:"position"`
	Size     int64  `json:"size"`
}

func (l zerosLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  %d zero bytes from %d on: preallocated space\n", l.Size, l.Position)
}

type rewrittenLine struct {
	Type     string `json:"type"`
	File     string `json:"file"`
	Position int64  `json:"position"`
	Next     int64  `json:"next"` // where the output continues
}

func (l rewrittenLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "  truncated below %d and written again while it was read; continues at %d\n", l.Position, l.Next)
}
