// Command exactlyonce moves money between accounts, in a process that is killed with kill -9
// several times. With transactions an auditor never finds a wrong total; without them it does.
//
//	go run ./examples/exactlyonce [-kafka HOST:PORT]
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

const (
	transfers = 400
	accounts  = 10
	opening   = 100 // opening balance of each account
	kills     = 8
)

// at is where the example runs.
var at place.Place

func main() {
	if dir := os.Getenv(bankDir); dir != "" {
		if err := (branch{Place: place.FromEnviron(), dir: dir}).work(context.Background(), os.Getenv(bankMode), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bank:", err)
			os.Exit(1)
		}
		return
	}
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "exactlyonce:", err)
		os.Exit(1)
	}
}

// The program starts itself as the bank, with these environment variables.
const (
	bankDir  = "STRATA_BANK_DIR"
	bankMode = "STRATA_BANK_MODE"
)

// run does the same work with a bank of each kind.
func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d transfers between %d accounts that hold %d together. A transfer is a record in \"debits\" and one in \"credits\".\n"+
		"The bank is killed %d times. After each kill an auditor adds up the committed records.\n\n", transfers, accounts, accounts*opening, kills)
	for _, mode := range []string{exactly, atLeast} {
		if err := watch(ctx, mode, out); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintln(out, "In a transaction the debit, the credit and the committed offset of the transfer appear together or not at all, whenever the bank\n"+
		"is killed. Without one a kill comes between them, and the next run repeats the transfers without a committed offset.")
	return err
}

// watch runs a bank until all work is done, kills it on the way, and audits it.
func watch(ctx context.Context, mode string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "strata-bank-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := branch{Place: at.Another(), dir: dir}
	if err := b.found(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cleanUp(ctx)) }()
	fmt.Fprintf(out, "%s:\n  %-10s %9s %9s %9s %11s %8s\n", mode, "", "transfers", "debited", "credited", "difference", "repeated")
	for n := 1; ; n++ {
		killed, err := b.workUntilKilled(ctx, mode, n <= kills)
		if err != nil {
			return err
		}
		a, err := b.audit(ctx, mode)
		if err != nil {
			return err
		}
		what := "at the end"
		if killed {
			what = fmt.Sprintf("kill %d", n)
		}
		fmt.Fprintf(out, "  %-10s %9d %9d %9d %+11d %8d\n", what, len(a.seen), a.debited, a.credited, a.credited-a.debited, a.repeated)
		if !killed {
			if mode == exactly {
				if err := b.draw(ctx, out); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(out, "The accounts hold %d, and should hold %d; %d of %d transfers were made exactly once.\n",
				accounts*opening+a.credited-a.debited, accounts*opening, a.once(), transfers)
			return err
		}
	}
}

// cleanUp deletes the topics and the group elsewhere. The static member leaves when its session
// ends.
func (b branch) cleanUp(ctx context.Context) error {
	c, err := b.open(ctx)
	if err != nil {
		return err
	}
	if b.Elsewhere() {
		_, err = c.WaitGroup(ctx, b.Name("bank"), func(g group.Info) bool { return len(g.Members) == 0 })
	}
	return errors.Join(err, b.Close(c))
}

// draw shows transactions in the log of debits, if possible around an aborted one.
func (b branch) draw(ctx context.Context, out io.Writer) error {
	c, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var shown []string
	for partition := range int32(2) {
		all, aborted, err := b.logged(ctx, c, partition)
		if err != nil {
			return err
		}
		if shown == nil || aborted >= 0 {
			shown = all[max(0, aborted-8):min(len(all), max(0, aborted-8)+16)]
		}
		if aborted >= 0 {
			break
		}
	}
	_, err = fmt.Fprintf(out, "A part of the log (d is a debit, C the marker of a committed transaction, A of an aborted one):\n  %s\n", strings.Join(shown, " "))
	return err
}

// logged returns a word for each transaction in a partition of debits, and the index of the first
// aborted one with debits, or -1. It fetches batches as they are, with the markers.
func (b branch) logged(ctx context.Context, c strata.Client, n int32) (all []string, aborted int, err error) {
	debits := record.TopicPartition{Topic: b.Name("debits"), Partition: n}
	word, aborted := "", -1
	for offset, end := int64(0), int64(1); offset < end; {
		got, err := c.Fetch(ctx, &partition.FetchRequest{
			Partitions: []partition.FetchPartition{{TopicPartition: debits, Offset: offset, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
			Isolation:  partition.ReadUncommitted, MinBytes: 1, MaxWait: 100 * time.Millisecond,
		})
		if err != nil {
			return nil, -1, err
		}
		p := got.Partitions[0]
		if p.Err != nil {
			return nil, -1, p.Err
		}
		end = max(end, p.HighWatermark)
		for rest := p.Bytes; len(rest) > 0; {
			batch, size, err := record.Parse(rest)
			if err != nil {
				return nil, -1, err
			}
			rest, offset = rest[size:], batch.NextOffset()
			if !batch.IsControl() {
				word += strings.Repeat("d", int(batch.RecordCount))
				continue
			}
			kind, _, err := batch.Control()
			if err != nil {
				return nil, -1, err
			}
			if kind == record.ControlCommit {
				word += "C"
			} else {
				if word != "" && aborted < 0 {
					aborted = len(all)
				}
				word += "A"
			}
			all, word = append(all, word), ""
		}
	}
	return all, aborted, nil
}

// workUntilKilled starts the bank. If kill is set it kills the bank shortly after it has begun to
// work, unless all work is done before.
func (b branch) workUntilKilled(ctx context.Context, mode string, kill bool) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), b.Environ()...), bankDir+"="+b.dir, bankMode+"="+mode)
	cmd.Stderr = os.Stderr
	says, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if _, err := bufio.NewReader(says).ReadString('\n'); err == nil && kill { // it works
		time.Sleep(time.Duration(20+rand.IntN(130)) * time.Millisecond)
		_ = cmd.Process.Kill() // kill -9; an error means that it has ended already
	}
	err = cmd.Wait()
	if kill && cmd.ProcessState != nil && !cmd.ProcessState.Exited() {
		return true, nil
	}
	return false, err
}
