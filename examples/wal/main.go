// Command wal uses package log alone, as a write-ahead log of account movements: balances live
// in memory, the log makes them durable.
//
//	go run ./examples/wal
//
// It simulates two power cuts. The disk is in memory and tracks synced and unsynced data, so a
// power cut really loses unsynced data.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const transfers = 3 // before each power cut

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "wal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	disk := vfs.Mem()
	kept := int64(0) // transfers that survived so far
	for i, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		l, err := log.Open("accounts", log.Config{FS: disk, Sync: policy})
		if err != nil {
			return err
		}
		// one call is one batch: the log has both movements of a transfer, or neither
		for n := range transfers {
			if _, err := l.Append(ctx, record.String("", "alice", strconv.Itoa(-10-n)), record.String("", "bob", strconv.Itoa(10+n))); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "sync %v: %d transfers acknowledged, the log ends at %d, power fails\n", policy, transfers, l.EndOffset())
		before, err := draw(l)
		if err != nil {
			return err
		}
		crashed := disk.Crash(uint64(i))  // the contents of the disk after the power cut
		if err := l.Close(); err != nil { // only to free resources of this process
			return err
		}
		disk = crashed
		after, end, err := recover(out, disk)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "    acknowledged |%s|\n    on the disk  |%-*s|\n", before, len(before), after)
		lost := transfers - (end/2 - kept) // two movements each
		kept = end / 2
		verdict := "NONE of them is lost: an acknowledged append is on stable storage"
		if lost > 0 {
			verdict = fmt.Sprintf("%d of them are LOST: they were acknowledged before they were on the disk", lost)
		}
		fmt.Fprintf(out, "  verdict: %s\n", verdict)
	}
	return followAndBackup(ctx, out, disk)
}

// draw returns one letter for each record of the log, the first of its account.
func draw(l *log.Log) (string, error) {
	var s strings.Builder
	for r, err := range l.Records(l.StartOffset()) {
		if err != nil {
			return "", err
		}
		s.WriteByte(r.Key[0])
	}
	return s.String(), nil
}

// recover opens the log after a crash and computes the balances from it. It returns a drawing of
// the log, and the log end offset.
func recover(out io.Writer, disk vfs.FS) (drawing string, end int64, err error) {
	l, err := log.Open("accounts", log.Config{FS: disk})
	if err != nil {
		return "", 0, err
	}
	balance := map[string]int{}
	for r, err := range l.Records(l.StartOffset()) {
		if err != nil {
			return "", 0, err
		}
		n, _ := strconv.Atoi(string(r.Value))
		balance[string(r.Key)] += n
	}
	rep := l.Recovery()
	fmt.Fprintf(out, "  reopened: clean %t, same boot %t, %d bytes checked, %d cut; the log ends at %d, balances %v\n",
		rep.Clean, rep.SameBoot, rep.ScannedBytes, rep.CutBytes, l.EndOffset(), balance)
	if drawing, err = draw(l); err != nil {
		return "", 0, err
	}
	return drawing, l.EndOffset(), l.Close()
}

// followAndBackup copies the log while a goroutine follows it.
func followAndBackup(ctx context.Context, out io.Writer, disk vfs.FS) error {
	l, err := log.Open("accounts", log.Config{FS: disk})
	if err != nil {
		return err
	}
	defer l.Close()
	seen, from := make(chan string), l.EndOffset()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(seen)
		for r, err := range l.Follow(ctx, from) { // waits for records, until ctx is done
			if err != nil {
				return
			}
			seen <- fmt.Sprintf("%s %s", r.Key, r.Value)
		}
	}()
	for _, v := range []string{"+100", "-3"} {
		if _, err := l.Append(ctx, record.String("", "carol", v)); err != nil {
			return err
		}
		fmt.Fprintf(out, "follower sees: %s\n", <-seen)
	}
	if err := l.Backup(ctx, nil, "backup"); err != nil {
		return err
	}
	b, err := log.OpenReadOnly("backup", log.Config{FS: disk})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "backup holds [%d, %d), the log [%d, %d)\n", b.StartOffset(), b.EndOffset(), l.StartOffset(), l.EndOffset())
	return b.Close()
}
