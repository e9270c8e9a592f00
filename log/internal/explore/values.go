package explore

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/stratalog/strata/record"
)

// A rec is a record that was passed to a log. Its id determines all of it except its time.
type rec struct {
	id int64
	ts int64 // ms
}

const (
	differentKeys = 9
	idHeader      = "id"
)

func mix(id int64) uint64 { return uint64(id+1) * 0x9e3779b97f4a7c15 }

// keyOf returns the key of a record. There are few keys, so that compaction removes records.
func keyOf(id int64) string { return "k" + strconv.Itoa(int(mix(id)>>20%differentKeys)) }

// tombstone reports whether the record has no value.
func tombstone(id int64) bool { return mix(id)>>40%7 == 0 }

// valueOf returns the value of a record: filler that depends on the id, nil for a tombstone.
func valueOf(id int64) []byte {
	if tombstone(id) {
		return nil
	}
	return bytes.Repeat([]byte{byte('a' + mix(id)%26)}, int(mix(id)>>32%400)+1)
}

// record returns the record as it is passed to the log.
func (r rec) record() record.Record {
	return record.Record{
		Key: []byte(keyOf(r.id)), Value: valueOf(r.id), Timestamp: time.UnixMilli(r.ts),
		Headers: []record.Header{{Key: idHeader, Value: strconv.AppendInt(nil, r.id, 10)}},
	}
}

// recOf is the inverse of record. It fails if any part of the record has changed.
func recOf(r *record.Record) (rec, error) {
	p, ok := r.Header(idHeader)
	id, err := strconv.ParseInt(string(p), 10, 64)
	if !ok || err != nil {
		return rec{}, fmt.Errorf("a record without an id: %.60q", r.Value)
	}
	if string(r.Key) != keyOf(id) || !bytes.Equal(r.Value, valueOf(id)) || (r.Value == nil) != tombstone(id) {
		return rec{}, fmt.Errorf("record %d has become key %q, value %.40q", id, r.Key, r.Value)
	}
	return rec{id, r.Timestamp.UnixMilli()}, nil
}
