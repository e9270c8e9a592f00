package segment_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A segment is written, sealed, and read like any segment that Kafka wrote.
func Example() {
	if err := example(); err != nil {
		slog.Error("example failed", "err", err)
	}
	// Output:
	// 2 batches, next offset 4
	// the batch with offset 3 begins at 2
	// first record at or after 12:00:03 has offset 3
}

func example() error {
	fsys := vfs.Mem()
	if err := vfs.MakeDir(fsys, "events-0", 0o755); err != nil {
		return err
	}
	s, err := segment.Create("events-0", 0, segment.Config{FS: fsys})
	if err != nil {
		return err
	}
	defer s.Close()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for base := int64(0); base < 4; base += 2 {
		var b record.Builder
		b.SetBaseOffset(base)
		for i := range int64(2) {
			b.AppendKV(noon.Add(time.Duration(base+i)*time.Second).UnixMilli(), []byte("door"), []byte("opened"), nil)
		}
		batch, err := b.Build(record.None)
		if err != nil {
			return err
		}
		h, err := record.ParseHeader(batch)
		if err != nil {
			return err
		}
		if err := s.Append([][]byte{batch}, []segment.BatchInfo{segment.InfoOf(&h)}); err != nil {
			return err
		}
	}
	if err := s.Seal(); err != nil { // on stable storage from here on
		return err
	}
	n := 0
	for _, err := range s.Batches(0) {
		if err != nil {
			return err
		}
		n++
	}
	fmt.Printf("%d batches, next offset %d\n", n, s.NextOffset())
	p, err := s.ReadAt(nil, 3, 1<<20, -1)
	if err != nil {
		return err
	}
	b, err := record.ParseUnverified(p)
	if err != nil {
		return err
	}
	fmt.Printf("the batch with offset 3 begins at %d\n", b.BaseOffset)
	offset, _, _, err := s.OffsetAt(noon.Add(2500*time.Millisecond).UnixMilli(), 0)
	if err != nil {
		return err
	}
	fmt.Printf("first record at or after 12:00:03 has offset %d\n", offset)
	return nil
}
