package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"time"
)

// v2Log is a minimal log of Kafka's message format v2: it encodes varints, computes a checksum and
// writes once. Replay verifies every CRC and iterates over the records.
type v2Log struct {
	rawLog
	next int64
}

const v2Header = 61

func appendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func (l *v2Log) AppendBatch(recs [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := append(l.buf[:0], make([]byte, v2Header)...)
	for i, r := range recs {
		body := 1 + 1 + varintLen(int64(i)) + 1 + varintLen(int64(len(r))) + len(r) + 1
		b = appendVarint(b, int64(body))
		b = append(b, 0, 0) // attributes, timestamp delta
		b = appendVarint(b, int64(i))
		b = append(b, 1) // null key
		b = appendVarint(b, int64(len(r)))
		b = append(b, r...)
		b = append(b, 0) // no headers
	}
	now := uint64(time.Now().UnixMilli())
	be := binary.BigEndian
	be.PutUint64(b[0:], uint64(l.next))
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(len(recs)-1))
	be.PutUint64(b[27:], now)
	be.PutUint64(b[35:], now)
	be.PutUint64(b[43:], ^uint64(0))
	be.PutUint32(b[57:], uint32(len(recs)))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	l.next += int64(len(recs))
	l.buf = b
	return l.flush(b)
}

func (l *v2Log) ReadAll(fn func([]byte)) error {
	buf, have := make([]byte, 4<<20), 0
	for off := int64(0); ; {
		n, err := l.f.ReadAt(buf[have:], off)
		off += int64(n)
		have += n
		b := buf[:have]
		for len(b) >= v2Header {
			size := 12 + int(binary.BigEndian.Uint32(b[8:]))
			if size > len(b) {
				break
			}
			if crc32.Checksum(b[21:size], castagnoli) != binary.BigEndian.Uint32(b[17:]) {
				return errors.New("crc")
			}
			p := b[v2Header:size]
			for len(p) > 0 {
				l, w := binary.Varint(p)
				rec := p[w : w+int(l)]
				p = p[w+int(l):]
				_, a := binary.Varint(rec[1:])
				_, d := binary.Varint(rec[1+a:])
				k, e := binary.Varint(rec[1+a+d:])
				at := 1 + a + d + e + int(max(k, 0))
				v, e := binary.Varint(rec[at:])
				fn(rec[at+e : at+e+int(v)])
			}
			b = b[size:]
		}
		have = copy(buf, b)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
