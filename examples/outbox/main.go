// Command outbox takes orders. Each order is a row in a database and an event in a topic, exactly
// one of each, although the shop is killed several times with kill -9. With an outbox the event is
// first a row too, written with the order, and a relay sends it in a transaction that also has the
// relay's position. For comparison, a second shop writes to database and topic itself.
//
//	go run ./examples/outbox [-kafka HOST:PORT]
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

	"github.com/stratalog/strata/examples/internal/place"
)

const (
	orders = 300
	kills  = 8
)

// The program starts itself as the shop, with these environment variables.
const (
	shopDir  = "STRATA_SHOP_DIR"
	shopMode = "STRATA_SHOP_MODE"
)

func main() {
	var err error
	if dir := os.Getenv(shopDir); dir != "" {
		settle(place.FromEnviron())
		err = work(context.Background(), dir, os.Getenv(shopMode), os.Stdout)
	} else {
		settle(place.FromFlags())
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

// run takes the same orders with a shop of each kind.
func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d orders, each a row in a database and an event in a topic. The shop is killed %d times.\n\n"+
		"  %-25s  shop --[row, event]--> database --> relay --[events, position]--> topic\n"+
		"  %-25s  shop --[row]--> database, then shop --[event]--> topic\n\n", orders, kills, withOutbox, bothByItself)
	for _, mode := range []string{withOutbox, bothByItself} {
		if err := watch(ctx, mode, out); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Fprintln(out)
	}
	_, err := fmt.Fprintln(out, "A write to two stores is not atomic. The outbox is in the same database as the row, and the relay continues where its last\n"+
		"transaction ended: it writes the events and its position together.")
	return err
}

// watch runs a shop until all orders are taken, kills it on the way, and compares rows and events.
func watch(ctx context.Context, mode string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "strata-shop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	settle(at.Another())
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

// workUntilKilled starts the shop. If kill is set it kills the shop shortly after it has begun to
// work, unless all orders are taken before.
func workUntilKilled(ctx context.Context, dir, mode string, kill bool) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), at.Environ()...), shopDir+"="+dir, shopMode+"="+mode)
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
		_ = cmd.Process.Kill() // kill -9; an error means that it has ended already
	}
	err = cmd.Wait()
	if kill && cmd.ProcessState != nil && !cmd.ProcessState.Exited() {
		return true, nil
	}
	return false, err
}
