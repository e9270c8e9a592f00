package vfs_test

import (
	"fmt"
	"os"
	"syscall"

	"github.com/stratalog/strata/vfs"
)

func ExampleMemFS_CrashWith() {
	m := vfs.Mem()
	f, _ := m.OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o644)
	_, _ = f.WriteAt([]byte("synced"), 0)
	_ = f.Sync()
	_ = m.SyncDir("/")
	_, _ = f.WriteAt([]byte(" or not"), 6)

	lost := m.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost})
	for _, fsys := range []vfs.FS{m, lost} {
		b, _ := vfs.ReadFile(fsys, "/f")
		fmt.Printf("%q\n", b)
	}
	// Output:
	// "synced or not"
	// "synced"
}

func ExampleFaultFS_Inject() {
	m := vfs.Mem()
	free := m.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Err: syscall.ENOSPC})
	fmt.Println(vfs.WriteFile(m, "/f.txt", []byte("other files have room")))
	f, _ := m.OpenFile("/f.log", os.O_RDWR|os.O_CREATE, 0o644)
	_, err := f.WriteAt([]byte("abc"), 0)
	fmt.Println(err)
	free()
	_, err = f.WriteAt([]byte("abc"), 0)
	fmt.Println(err)
	// Output:
	// <nil>
	// write /f.log: no space left on device
	// <nil>
}

func ExampleFaultFS_Observe() {
	m := vfs.Mem()
	m.Observe(vfs.Observer{Before: func(e vfs.Event) { fmt.Println(e) }})
	_ = vfs.WriteFile(m, "/checkpoint", []byte("42"))
	// Output:
	// 1 create /checkpoint.tmp
	// 2 write /checkpoint.tmp [0,2)
	// 3 sync /checkpoint.tmp
	// 4 close /checkpoint.tmp
	// 5 rename /checkpoint.tmp -> /checkpoint
	// 6 syncdir /
}
