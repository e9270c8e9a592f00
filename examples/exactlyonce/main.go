// Command exactlyonce moves money between accounts while the process that does it is killed again
// and again, kill -9, wherever it is: with transactions, where an auditor never finds a penny too
// many or too few, and without, where it does.
//
//	go run ./examples/exactlyonce
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"
)

const (
	transfers = 400
	accounts  = 10
	opening   = 100 // what each account begins with
	kills     = 8
)

func main() {
	if dir := os.Getenv(bankDir); dir != "" {
		if err := work(context.Background(), dir, os.Getenv(bankMode), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bank:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "exactlyonce:", err)
		os.Exit(1)
	}
}

// The program starts itself as the bank, which is killed; these tell it that it is the bank.
const (
	bankDir  = "STRATA_BANK_DIR"
	bankMode = "STRATA_BANK_MODE"
)

// run lets a bank of each kind do the same work.
func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d transfers between %d accounts that hold %d together. A transfer is a record in \"debits\" and one in \"credits\".\n"+
		"The bank is killed %d times; after each, an auditor adds up what it has left behind.\n\n", transfers, accounts, accounts*opening, kills)
	for _, mode := range []string{exactly, atLeast} {
		if err := watch(ctx, mode, out); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintln(out, "In a transaction the debit, the credit and \"this transfer is read\" are one thing: all of it, or nothing, whenever the bank dies.\n"+
		"Without, it dies between them, and does again what it had not noted as read.")
	return err
}

// watch has a bank do all the work, killing it on the way, and audits it.
func watch(ctx context.Context, mode string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "strata-bank-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := found(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s:\n  %-10s %9s %9s %9s %11s %8s\n", mode, "", "transfers", "debited", "credited", "difference", "repeated")
	for n := 1; ; n++ {
		killed, err := workUntilKilled(ctx, dir, mode, n <= kills)
		if err != nil {
			return err
		}
		b, err := audit(ctx, dir, mode)
		if err != nil {
			return err
		}
		what := "at the end"
		if killed {
			what = fmt.Sprintf("kill %d", n)
		}
		fmt.Fprintf(out, "  %-10s %9d %9d %9d %+11d %8d\n", what, len(b.seen), b.debited, b.credited, b.credited-b.debited, b.repeated)
		if !killed {
			_, err := fmt.Fprintf(out, "The accounts hold %d, and should hold %d; %d of %d transfers were made exactly once.\n",
				accounts*opening+b.credited-b.debited, accounts*opening, b.once(), transfers)
			return err
		}
	}
}

// workUntilKilled starts the bank, and kills it a moment after it has begun to work, unless it is
// to be left alone or is ready before that.
func workUntilKilled(ctx context.Context, dir, mode string, kill bool) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), bankDir+"="+dir, bankMode+"="+mode)
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
		_ = cmd.Process.Kill() // kill -9; an error says that it is ready
	}
	err = cmd.Wait()
	if kill && cmd.ProcessState != nil && !cmd.ProcessState.Exited() {
		return true, nil
	}
	return false, err
}
