package kafkadir_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafkadir"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func Example() {
	ctx, disk := context.Background(), vfs.Mem() // FS may be left out: the operating system's
	c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
	if err == nil {
		err = c.CreateTopic(ctx, "orders", topic.Config{Partitions: 3})
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		panic(err)
	}
	if _, err := kafkadir.Export(ctx, kafkadir.ExportConfig{Dir: "data", To: "kafka", FS: disk}); err != nil {
		panic(err)
	}
	report, err := kafkadir.Import(ctx, kafkadir.ImportConfig{From: []string{"kafka"}, Dir: "copy", FS: disk})
	if err != nil {
		panic(err)
	}
	for _, t := range report.Topics {
		fmt.Println(t.Name, t.Partitions, "retention off:", t.RetentionOff)
	}
	// Output: orders 3 retention off: true
}
