package record

import "iter"

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

// Decode yields the records of seq with their values decoded by dec, which gets nil for a tombstone. A value that dec refuses is yielded as its
// record with the error, and the walk goes on: one bad record does not stop a stream. Errors of seq are passed on.
func Decode[T any](seq iter.Seq2[Record, error], dec func(value []byte) (T, error)) iter.Seq2[Typed[T], error] {
	return func(yield func(Typed[T], error) bool) {
		for r, err := range seq {
			t := Typed[T]{Record: r}
			if err == nil {
				t.Value, err = dec(r.Value)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// DecodeRecord is Decode for keys and values together: dec gets the whole record, headers included.
func DecodeRecord[K, V any](seq iter.Seq2[Record, error], dec func(Record) (K, V, error)) iter.Seq2[TypedRecord[K, V], error] {
	return func(yield func(TypedRecord[K, V], error) bool) {
		for r, err := range seq {
			t := TypedRecord[K, V]{Record: r}
			if err == nil {
				t.Key, t.Value, err = dec(r)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
