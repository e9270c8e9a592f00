// Package kafkatopic has an offsets topic that a real Kafka wrote, for the tests of the packages
// that read one.
package kafkatopic

import (
	"embed"
	"testing"

	"github.com/stratalog/strata/record"
)

//go:embed testdata/*.log
var files embed.FS

// Each calls f with every record of the topic and its batch. f owns both.
func Each(t testing.TB, f func(b *record.Batch, r record.Record)) {
	t.Helper()
	dir, err := files.ReadDir("testdata")
	if err != nil || len(dir) != 2 {
		t.Fatalf("%d files of two partitions: %v", len(dir), err)
	}
	for _, file := range dir {
		p, err := files.ReadFile("testdata/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			if err != nil {
				t.Fatalf("%s: %v", file.Name(), err)
			}
			for r, err := range b.All() {
				if err != nil {
					t.Fatalf("%s: %v", file.Name(), err)
				}
				f(b, r)
			}
			p = p[n:]
		}
	}
}
