package record

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

var (
	// ErrTooLarge is matched by errors for a batch whose decompressed records exceed the caller's
	// limit.
	ErrTooLarge = errors.New("record: decompressed batch too large")
	// ErrUnsupportedCodec is matched by errors for a codec other than the five.
	ErrUnsupportedCodec = errors.New("record: unsupported compression codec")
)

// Inflate appends the decompressed records of b to dst. If b is uncompressed and dst has no
// capacity, nothing is copied and the result aliases b. limit bounds the decompressed size in
// bytes; 0 means DefaultMaxInflated. It does not apply to uncompressed records. Errors match
// ErrCorrupt, ErrTooLarge, ErrUnsupportedCodec, or ErrShort if b is only a header.
func (b *Batch) Inflate(dst []byte, limit int) ([]byte, error) {
	if len(b.raw) < HeaderSize || len(b.raw) != b.Size() {
		return nil, ErrShort
	}
	p := b.raw[HeaderSize:]
	if b.Codec() == None || b.RecordCount == 0 && len(p) == 0 {
		if cap(dst) == 0 {
			return p, nil
		}
		return append(dst, p...), nil
	}
	if limit <= 0 {
		limit = DefaultMaxInflated
	}
	return decompress(dst, p, b.Codec(), limit)
}

// compress appends p, compressed, to dst. The only error is ErrUnsupportedCodec; dst is returned
// then.
func compress(dst, p []byte, c Codec) ([]byte, error) {
	switch c {
	case None:
		return append(dst, p...), nil
	case Gzip:
		return compressGzip(dst, p), nil
	case Snappy:
		return compressXerial(dst, p), nil
	case LZ4:
		return compressLZ4(dst, p), nil
	case Zstd:
		return compressZstd(dst, p), nil
	}
	return dst, fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
}

// decompress appends the inflated bytes of p, at most limit, to dst. Sizes in p are checked against
// limit, and against the greatest ratio of the codec, before memory is allocated. It returns nil on
// error, so the caller must keep its own reference to dst.
func decompress(dst, p []byte, c Codec, limit int) (out []byte, err error) {
	switch c {
	case Gzip:
		out, err = decompressGzip(dst, p, limit)
	case Snappy:
		out, err = decompressSnappy(dst, p, limit)
	case LZ4:
		out, err = decompressLZ4(dst, p, limit)
	case Zstd:
		out, err = decompressZstd(dst, p, limit)
	default:
		err = fmt.Errorf("%w: %d", ErrUnsupportedCodec, c)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
}

// corrupt returns the error for unreadable compressed bytes; reason is a string or an error.
func corrupt(c Codec, reason any) error {
	return fmt.Errorf("%w: %v data: %v", ErrCorrupt, c, reason)
}

// An appender is an io.Writer onto the end of a slice.
type appender struct{ p []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.p = append(a.p, p...)
	return len(p), nil
}

// maxPooledBytes is the largest scratch buffer that is kept: one huge batch must not pin memory for
// ever.
const maxPooledBytes = 4 << 20

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// A scratch is a buffer for decompressed records that do not outlive a call. Only its own function
// puts it back.
type scratch struct {
	p    []byte
	turn turn
}

func getScratch() *scratch { return scratchPool.Get().(*scratch) }

func putScratch(s *scratch) {
	kept := cap(s.p) <= maxPooledBytes
	if !kept {
		s.p = nil
	}
	s.turn.end()
	if kept {
		poison(s.p)
		scratchPool.Put(s)
	}
}

// inflate is Inflate into the scratch buffer; the result is valid until putScratch. It may wait for
// other calls: see turn.
func (s *scratch) inflate(b *Batch, limit int) ([]byte, error) {
	if b.Codec() == None {
		return b.Inflate(nil, 0) // aliases b
	}
	if limit <= 0 {
		limit = DefaultMaxInflated
	}
	for bound := min(limit, max(freelyInflated, min(usualRatio*len(b.raw), InflatedPerProcessor))); ; {
		s.turn.take(bound)
		p, err := b.Inflate(s.p[:0], bound)
		if cap(p) > cap(s.p) {
			s.p = p[:0]
		}
		if bound == limit || !errors.Is(err, ErrTooLarge) {
			return p, err
		}
		if bound < InflatedPerProcessor {
			bound = min(limit, InflatedPerProcessor)
		} else {
			bound = limit
		}
	}
}

const (
	freelyInflated = 256 << 10 // bytes that any number of calls may inflate to at a time
	usualRatio     = 16        // how much smaller than its records a batch hardly ever is
)

// InflatedPerProcessor is the number of bytes to which as many calls may decompress a batch at a
// time as there are processors. Larger batches are decompressed one at a time.
const InflatedPerProcessor = 16 << 20

// A turn is the right to inflate many bytes, which few calls have at a time: a batch of four
// kilobytes may take 128 MiB. Calls that inflate to InflatedPerProcessor bytes at most wait for
// others only if they would have no processor anyway. The zero turn is none. The holder of a turn
// never blocks.
type turn uint8

const (
	noTurn turn = iota
	mediumTurn
	largeTurn
)

var (
	mediumTurns = make(chan struct{}, runtime.GOMAXPROCS(0))
	largeTurns  = make(chan struct{}, 1)
)

// take waits for the turn that inflating to n bytes needs. It replaces the turn t.
func (t *turn) take(n int) {
	need := noTurn
	switch {
	case n > InflatedPerProcessor:
		need = largeTurn
	case n > freelyInflated:
		need = mediumTurn
	}
	if need == *t {
		return
	}
	t.end()
	switch need {
	case mediumTurn:
		mediumTurns <- struct{}{}
	case largeTurn:
		largeTurns <- struct{}{}
	}
	*t = need
}

func (t *turn) end() {
	switch *t {
	case mediumTurn:
		<-mediumTurns
	case largeTurn:
		<-largeTurns
	}
	*t = noTurn
}
