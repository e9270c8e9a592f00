// Command outbox takes orders: each is a row in a database and an event for everybody else, one of
// each, although the shop is killed again and again, kill -9. An outbox does that: the event is
// first a row too, written with the order, and a relay sends it on in a transaction that also says
// how far it has come. Next to it, a shop that writes to both by itself.
//
//	go run ./examples/outbox
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
	orders = 300
	kills  = 8
)

// The program starts itself as the shop, which is killed; these tell it that it is the shop.
const (
	shopDir  = "STRATA_SHOP_DIR"
	shopMode = "STRATA_SHOP_MODE"
)

func main() {
	var err error
	if dir := os.Getenv(shopDir); dir != "" {
		err = work(context.Background(), dir, os.Getenv(shopMode), os.Stdout)
	} else {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// run lets a shop of each kind take the same orders.
func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d orders, each a row in a database and an event in a topic. The shop is killed %d times.\n\n", orders, kills)
	for _, mode := range []string{withOutbox, bothByItself} {
		if err := watch(ctx, mode, out); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintln(out, "Two stores cannot be written to at once. The outbox writes to one, and the relay goes on where its last transaction ended: the\n"+
		"events and that place are written together.")
	return err
}

// watch has a shop take all orders, killing it on the way, and compares rows and events.
func watch(ctx context.Context, mode string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "strata-shop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := found(ctx, dir); err != nil {
		return err
	}
	for n := 1; ; n++ {
		killed, err := workUntilKilled(ctx, dir, mode, n <= kills)
		if err != nil {
			return err
		}
		if !killed {
			break
		}
	}
	a, err := compare(ctx, dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s:\n  %d rows, %d events; %d rows without an event, %d events too many\n", mode, a.rows, a.events, a.silent, a.repeated)
	return err
}

// workUntilKilled starts the shop, and kills it a moment after it has begun to work, unless it is
// to be left alone or is ready before that.
func workUntilKilled(ctx context.Context, dir, mode string, kill bool) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), shopDir+"="+dir, shopMode+"="+mode)
	cmd.Stderr = os.Stderr
	says, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if _, err := bufio.NewReader(says).ReadString('\n'); err == nil && kill { // it works
		time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
		_ = cmd.Process.Kill() // kill -9; an error says that it is ready
	}
	err = cmd.Wait()
	if kill && cmd.ProcessState != nil && !cmd.ProcessState.Exited() {
		return true, nil
	}
	return false, err
}
