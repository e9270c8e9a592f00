package kfake

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// maxRecords bounds the size of a batch's records once they are decompressed.
const maxRecords = 1 << 30

var errRecords = errors.New("kfake: the records of the batch end too early")

// BatchRecords returns the decompressed records of a batch from a produce request or a fetch
// response. They may alias the batch. It returns an error if the records cannot be read or the
// batch is not of format 2.
func BatchRecords(b kmsg.RecordBatch) ([]kmsg.Record, error) {
	if b.Magic != 2 {
		return nil, fmt.Errorf("kfake: batch of format %d: only 2 can be read", b.Magic)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	batch, err := record.ParseUnverified(raw)
	if err != nil {
		return nil, fmt.Errorf("kfake: batch: %w", err)
	}
	rest, err := batch.Inflate(nil, maxRecords)
	if err != nil {
		return nil, fmt.Errorf("kfake: batch: %w", err)
	}
	var records []kmsg.Record
	for range b.NumRecords {
		size, n := binary.Varint(rest)
		if n <= 0 || size < 0 || size > int64(len(rest)-n) {
			return nil, errRecords
		}
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(size)]); err != nil {
			return nil, fmt.Errorf("kfake: record %d of the batch: %w", len(records), err)
		}
		records, rest = append(records, r), rest[n+int(size):]
	}
	return records, nil
}
