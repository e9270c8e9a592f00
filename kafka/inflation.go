package kafka

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxProducePartitions bounds the partitions of one produce request: each costs far more memory
// than the few bytes it may take in the request.
const maxProducePartitions = 100_000

// inflation returns the number of bytes of memory that decoding may take for each byte of a
// request. kmsg allocates an array when it has read its length. It bounds the length by the
// remaining bytes, but an element may take a single byte. Arrays inside elements add to that.
//
// The result is the same for all servers, and computed once for each key: a test starts many
// servers.
func inflation(key int16) int {
	if n, ok := inflations.Load(key); ok {
		return n.(int)
	}
	n := 1 + elementSize(reflect.TypeOf(kmsg.RequestForKey(key)).Elem())
	inflations.Store(key, n)
	return n
}

var inflations sync.Map // results of inflation by key

// namedBytes is the assumed size in bytes of a name in a request with many names. They differ, so
// they cannot all be shorter.
const namedBytes = 8

// workFactor returns the number of bytes of memory that a request takes for each of its bytes
// while it is served. It includes the decoded form, and a response with an element for each name.
func workFactor(key int16) int {
	answer := reflect.TypeOf(kmsg.RequestForKey(key).ResponseKind()).Elem()
	return inflation(key) - 1 + elementSize(answer)/namedBytes
}

// elementSize returns the size of nested array elements in a struct: the largest sum, among its
// fields, of an element's size and its own elementSize.
func elementSize(t reflect.Type) int {
	if t.Kind() == reflect.Pointer {
		return int(t.Elem().Size()) + elementSize(t.Elem())
	}
	if t.Kind() != reflect.Struct {
		return 0
	}
	largest := 0
	for i := range t.NumField() {
		f := t.Field(i).Type
		size := 0
		switch {
		case f.Kind() == reflect.Slice && f.Elem().Kind() != reflect.Uint8:
			size = int(f.Elem().Size()) + elementSize(f.Elem())
		case f.Kind() == reflect.Struct || f.Kind() == reflect.Pointer:
			size = elementSize(f)
		}
		largest = max(largest, size)
	}
	return largest
}

// checkProduce validates the structure of a produce request before it is decoded: a hundred
// megabytes must be records, not a hundred million empty topics.
func checkProduce(body []byte, version int16) error {
	w := &walker{b: body, flexible: version >= 9}
	w.skip(w.stringLength()) // transactional id
	w.skip(2 + 4)            // acks, timeout
	partitions := 0
	for range w.count() {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.stringLength())
		}
		n := w.count()
		if partitions += n + 1; partitions > maxProducePartitions {
			return fmt.Errorf("%w: more than %d partitions", errMalformed, maxProducePartitions)
		}
		for range n {
			w.skip(4)
			w.skip(w.bytesLength())
			w.tags()
		}
		w.tags()
		if w.bad {
			break
		}
	}
	if w.bad {
		return fmt.Errorf("%w: cut produce request", errMalformed)
	}
	return nil
}

// walker skips encoded fields. After a field that exceeds the remaining bytes it is bad, and all
// further fields are empty.
type walker struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *walker) skip(n int) {
	if n > len(w.b) {
		w.bad, w.b = true, nil
		return
	}
	w.b = w.b[max(n, 0):]
}

func (w *walker) uvarint() int {
	v, n := binary.Uvarint(w.b)
	if n <= 0 || v > uint64(len(w.b)) {
		w.bad, w.b = true, nil
		return 0
	}
	w.b = w.b[n:]
	return int(v)
}

func (w *walker) fixed(n int) int {
	if n > len(w.b) {
		w.bad, w.b = true, nil
		return 0
	}
	p := w.b[:n]
	w.b = w.b[n:]
	if n == 2 {
		return int(int16(binary.BigEndian.Uint16(p)))
	}
	return int(int32(binary.BigEndian.Uint32(p)))
}

func (w *walker) stringLength() int {
	if w.flexible {
		return w.uvarint() - 1
	}
	return w.fixed(2)
}

func (w *walker) bytesLength() int {
	if w.flexible {
		return w.uvarint() - 1
	}
	return w.fixed(4)
}

// count returns the length of an array, at most the number of remaining bytes.
func (w *walker) count() int {
	n := w.bytesLength()
	if n > len(w.b) {
		w.bad, w.b = true, nil
		return 0
	}
	return max(n, 0)
}

func (w *walker) tags() {
	if !w.flexible || w.bad {
		return
	}
	for range w.uvarint() {
		w.uvarint()
		w.skip(w.uvarint())
		if w.bad {
			return
		}
	}
}
