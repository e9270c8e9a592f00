package record_test

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/record"
)

// A batch is built, compressed, and read back.
func Example() {
	var b record.Builder
	b.Append(&record.Record{Timestamp: time.UnixMilli(1000), Key: []byte("user-1"), Value: []byte("logged in")})
	// A tombstone.
	b.Append(&record.Record{Timestamp: time.UnixMilli(1005), Key: []byte("user-2"), Value: nil})
	p, err := b.Build(record.Zstd)
	if err != nil {
		panic(err)
	}

	record.SetBaseOffset(p, 42) // as the leader does: the CRC does not cover it
	batch, _, err := record.Parse(p)
	if err != nil {
		panic(err)
	}
	fmt.Println(batch.Codec(), batch.BaseOffset, batch.LastOffset())
	for r, err := range batch.All() {
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value), r.Value == nil)
	}
	// Output:
	// zstd 42 43
	// 42 1000 user-1 logged in false
	// 43 1005 user-2  true
}

// A builder that is used again and again does not allocate.
func ExampleBuilder_AppendBatch() {
	var b record.Builder
	var out []byte
	b.Reset(100) // bytes
	for i := range 10 {
		value := fmt.Appendf(nil, "value %d", i)
		if b.AppendKV(1000, nil, value, nil) {
			continue
		}
		out, _ = b.AppendBatch(out, record.None) // full: b is empty again afterwards
		b.AppendKV(1000, nil, value, nil)
	}
	out, _ = b.AppendBatch(out, record.None)
	for len(out) > 0 {
		batch, n, err := record.Parse(out)
		if err != nil {
			panic(err)
		}
		fmt.Println(batch.RecordCount, "records in", n, "bytes")
		out = out[n:]
	}
	// Output:
	// 2 records in 89 bytes
	// 2 records in 89 bytes
	// 2 records in 89 bytes
	// 2 records in 89 bytes
	// 2 records in 89 bytes
}

// Values are decoded one by one; an invalid one does not stop the stream.
func ExampleDecode() {
	type order struct{ Item string }
	var b record.Builder
	for _, v := range []string{`{"Item":"book"}`, `broken`, `{"Item":"pen"}`} {
		r := record.String("orders", "", v)
		b.Append(&r)
	}
	batch, _, err := record.Parse(b.Bytes())
	if err != nil {
		panic(err)
	}
	for o, err := range record.Decode(batch.All(), record.DecodeJSON[order]) {
		if err != nil {
			fmt.Println("offset", o.Record.Offset, "is no order")
			continue
		}
		fmt.Println(o.Value.Item)
	}
	// Output:
	// book
	// offset 1 is no order
	// pen
}

// A leader rejects batches that readers could not use.
func ExampleCheck() {
	var b record.Builder
	b.AppendKV(1000, nil, []byte("no key"), nil)
	_, _, err := record.Check(b.Bytes(), record.CheckOptions{RequireKeys: true})
	fmt.Println(err)
	// Output:
	// record: invalid record: unacceptable records: 1 of them, the first is record 0: a compacted topic needs a key
}
