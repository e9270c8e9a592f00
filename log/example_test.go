package log_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func Example() {
	l, err := log.Open("audit", log.Config{FS: vfs.Mem()}) // without FS: in the directory ./audit
	if err != nil {
		panic(err)
	}
	defer l.Close()
	ctx := context.Background()
	// On disk when it returns.
	first, err := l.Append(ctx, record.String("", "user-1", "logged in"), record.String("", "user-1", "logged out"))
	if err != nil {
		panic(err)
	}
	for r, err := range l.Records(first) { // stops at the end; Follow waits for more
		fmt.Println(r.Offset, string(r.Key), string(r.Value), err)
	}
	// Output:
	// 0 user-1 logged in <nil>
	// 1 user-1 logged out <nil>
}

func ExampleLog_Follow() {
	l, err := log.Open("audit", log.Config{FS: vfs.Mem()})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	ctx := context.Background()
	go func() {
		for i := range 3 {
			_, _ = l.Append(ctx, record.String("", "", fmt.Sprint("event ", i)))
		}
	}()
	for r, err := range l.Follow(ctx, 0) {
		fmt.Println(r.Offset, string(r.Value), err)
		if r.Offset == 2 {
			break
		}
	}
	// Output:
	// 0 event 0 <nil>
	// 1 event 1 <nil>
	// 2 event 2 <nil>
}

func ExampleOpenDirectory() {
	disk := vfs.Mem()
	d, err := log.OpenDirectory("data", log.DirectoryConfig{FS: disk})
	if err != nil {
		panic(err)
	}
	_, err = log.OpenDirectory("data", log.DirectoryConfig{FS: disk})
	fmt.Println(err != nil)
	for p := range 2 {
		l, err := log.Open(fmt.Sprintf("data/orders-%d", p), log.Config{Dir: d})
		if err != nil {
			panic(err)
		}
		first, err := l.Append(context.Background(), record.String("", "", "v"))
		fmt.Println(first, err, l.Close())
	}
	fmt.Println(d.Close())
	// Output:
	// true
	// 0 <nil> <nil>
	// 0 <nil> <nil>
	// <nil>
}
