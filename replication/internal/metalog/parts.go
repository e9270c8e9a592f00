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

// split cuts a change into what goes into batches of about part bytes: several are a transaction,
// named for who reads the log. It refuses a record that no batch can hold.
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

// appendNext writes the parts of a change in order, and takes those off that it has written. It
// stops behind the first one that a copy refuses.
func (m *Log) appendNext(parts *[][]metarecord.Record) (version int64, failed map[int32]error, err error) {
	for len(*parts) > 0 && len(failed) == 0 && err == nil {
		version, failed, err = m.append((*parts)[0])
		*parts = (*parts)[1:]
	}
	return version, failed, err
}

// appendParts writes a snapshot of several batches. If a copy refuses one of them all are taken
// back: the next change finds out what becomes of the copy. stuck are those that could not be.
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
