package metalog

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/byid"
)

// MaxPartBytes is the approximate maximum of a change's bytes in one batch.
const MaxPartBytes = 1 << 20

// split divides a change into batches of about Config.Part bytes. Several batches form a
// transaction, whose name is only for people. It returns an error for a record that is too large
// for a batch.
func (m *Log) split(state []metarecord.Record, name string) (parts [][]metarecord.Record, err error) {
	var value []byte
	size, from := int64(0), 0
	for i, rec := range state {
		value = metarecord.Append(value[:0], rec)
		if len(value) > MaxRecordBytes {
			return nil, fmt.Errorf("%w: %d bytes of metadata in one record", log.ErrRecordTooLarge, len(value))
		}
		if size += int64(len(value)); size > m.cfg.Part {
			parts, from, size = append(parts, state[from:i+1:i+1]), i+1, 0
		}
	}
	if from < len(state) {
		parts = append(parts, state[from:])
	}
	if len(parts) > 1 {
		last := len(parts) - 1
		parts[0] = append([]metarecord.Record{&metarecord.BeginTransaction{Name: name}}, parts[0]...)
		parts[last] = append(parts[last][:len(parts[last]):len(parts[last])], &metarecord.EndTransaction{})
	}
	return parts, nil
}

// appendNext writes the parts of a change in order, and removes the written ones from parts. It
// stops after the first part that failed on a copy.
func (m *Log) appendNext(parts *[][]metarecord.Record) (version int64, failed map[int32]error, err error) {
	for len(*parts) > 0 && len(failed) == 0 && err == nil {
		version, failed, err = m.append((*parts)[0])
		*parts = (*parts)[1:]
	}
	return version, failed, err
}

// appendParts writes a snapshot of several batches. If one of them fails on a copy, all are
// truncated again: the next change determines whether the copy stays. stuck are the copies that
// kept some.
func (m *Log) appendParts(parts [][]metarecord.Record) (version int64, stuck map[int32]error, err error) {
	end, size := m.Own().EndOffset(), m.size
	for _, part := range parts {
		var failed map[int32]error
		version, failed, err = m.append(part)
		for _, cause := range byid.Range(failed) {
			err = errors.Join(err, cause)
		}
		if err != nil {
			m.size = size
			return 0, m.takeBack(end), err
		}
	}
	return version, nil, nil
}
