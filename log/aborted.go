package log

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/stratalog/strata/segment"
)

// AppendAborted adds an aborted transaction to the index of the segment that holds its marker.
func (l *Log) AppendAborted(t segment.AbortedTxn) error {
	if l.readOnly {
		return ErrReadOnly
	}
	list := l.list()
	i := floor(list, t.LastOffset)
	if i < 0 {
		return fmt.Errorf("%w: marker at %d", ErrOffsetOutOfRange, t.LastOffset)
	}
	return list[i].AppendAborted(t)
}

// AbortedTxns returns the aborted transactions that matter for records of [from, upTo); there may
// be more than needed.
func (l *Log) AbortedTxns(from, upTo int64) ([]segment.AbortedTxn, error) {
	for {
		if l.closing.Load() {
			return nil, ErrClosed
		}
		list := l.list()
		i := floor(list, from)
		if i < 0 {
			return nil, fmt.Errorf("%w: %d", ErrOffsetOutOfRange, from)
		}
		ts, err := abortedTxns(list[i:], from, upTo)
		if errors.Is(err, segment.ErrClosed) && !l.closing.Load() && l.durability.failed() == nil { // removed meanwhile: look at the new list
			runtime.Gosched()
			continue
		}
		if err == nil && l.closing.Load() { // no index may mean that it was removed
			return nil, ErrClosed
		}
		if err != nil {
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.path, l.orClosed(err))
		}
		return ts, nil
	}
}

func abortedTxns(list []*segment.Segment, from, upTo int64) (ts []segment.AbortedTxn, err error) {
	for _, s := range list {
		found, done, err := s.Aborted(from, upTo)
		if err != nil {
			return nil, err
		}
		ts = append(ts, found...)
		if done {
			break
		}
	}
	return ts, nil
}
