package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
)

// The limit rows do the minimal work of the task, inlined into one loop: no keys, no headers, no
// checks.

func limitEncode(b []byte, value []byte, n int) []byte {
	b = append(b[:0], emptyHeader[:]...)
	for i := range n {
		body := 1 + 1 + uvarintLen(uint64(i)<<1) + 1 + uvarintLen(uint64(len(value))<<1) + len(value) + 1
		b = binary.AppendVarint(b, int64(body))
		b = append(b, 0, 0)
		b = binary.AppendVarint(b, int64(i))
		b = append(b, 1)
		b = binary.AppendVarint(b, int64(len(value)))
		b = append(b, value...)
		b = append(b, 0)
	}
	sealBytes(b)
	return b
}

func limitDecode(b []byte, fn func([]byte)) bool {
	if crc32.Checksum(b[posAttributes:], castagnoli) != binary.BigEndian.Uint32(b[posCRC:]) {
		return false
	}
	p := b[HeaderSize:]
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
	return true
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("value=100/records=%d", n), func(b *testing.B) {
			value := make([]byte, 100)
			var bld Builder
			b.ReportAllocs()
			for b.Loop() {
				bld.Reset(0)
				for range n {
					bld.AppendKV(1000, nil, value, nil)
				}
				bld.Bytes()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
		b.Run(fmt.Sprintf("limit/value=100/records=%d", n), func(b *testing.B) {
			value := make([]byte, 100)
			var buf []byte
			for b.Loop() {
				buf = limitEncode(buf, value, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	var bld Builder
	for range 1000 {
		bld.AppendKV(1000, nil, make([]byte, 100), nil)
	}
	p := bld.Bytes()
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/record")
	}
	b.Run("borrowed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			batch, err := ParseUnverified(p)
			if err != nil || batch.VerifyCRC() != nil {
				b.Fatal(err)
			}
			it, _ := batch.Records(0)
			var r Record
			n := 0
			for ok, _ := it.Next(&r); ok; ok, _ = it.Next(&r) {
				n += len(r.Value)
			}
			if n != 100*1000 {
				b.Fatal(n)
			}
		}
		perRecord(b)
	})
	b.Run("by-value", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			batch, _, err := Parse(p)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for r, err := range batch.All() {
				if err != nil {
					b.Fatal(err)
				}
				n += len(r.Value)
			}
			if n != 100*1000 {
				b.Fatal(n)
			}
		}
		perRecord(b)
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := Check(p, CheckOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b)
	})
	b.Run("limit", func(b *testing.B) {
		for b.Loop() {
			n := 0
			if !limitDecode(p, func(v []byte) { n += len(v) }) || n != 100*1000 {
				b.Fatal(n)
			}
		}
		perRecord(b)
	})
}
