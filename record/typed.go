package record

import (
	"fmt"
	"iter"
)

// Typed is a record with its decoded value.
type Typed[T any] struct {
	Record Record
	Value  T
}

// TypedRecord is a record with its decoded key and value.
type TypedRecord[K, V any] struct {
	Record Record
	Key    K
	Value  V
}

// A DecodeError is returned for a record that could not be decoded. It wraps the decoder's error.
type DecodeError struct {
	Topic     string
	Partition int32
	Offset    int64
	Err       error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("record: decode %s-%d at offset %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap returns the decoder's error.
func (e *DecodeError) Unwrap() error { return e.Err }

func decodeError(r Record, err error) error {
	if err == nil {
		return nil
	}
	return &DecodeError{r.Topic, r.Partition, r.Offset, err}
}

// Decode yields the records of seq with their values decoded by dec, which gets nil for a
// tombstone. If dec returns an error, its record is yielded with a *DecodeError, and the iteration
// continues: one bad record does not stop a stream. Errors of seq are passed on unchanged, so that
// the two can be distinguished.
func Decode[T any](seq iter.Seq2[Record, error], dec func(value []byte) (T, error)) iter.Seq2[Typed[T], error] {
	return func(yield func(Typed[T], error) bool) {
		for r, err := range seq {
			t := Typed[T]{Record: r}
			if err == nil {
				t.Value, err = dec(r.Value)
				err = decodeError(r, err)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// DecodeRecord is Decode for keys and values together: dec gets the whole record, including
// headers.
func DecodeRecord[K, V any](seq iter.Seq2[Record, error], dec func(Record) (K, V, error)) iter.Seq2[TypedRecord[K, V], error] {
	return func(yield func(TypedRecord[K, V], error) bool) {
		for r, err := range seq {
			t := TypedRecord[K, V]{Record: r}
			if err == nil {
				t.Key, t.Value, err = dec(r)
				err = decodeError(r, err)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
