package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// How the bank works.
const (
	exactly = "exactly once, in transactions"
	atLeast = "at least once, without"
)

// teller is the transactional id: a new bank that begins with it ends the open transaction of the
// previous one.
const teller = "teller"

// A branch is where a bank has its log.
type branch struct {
	place.Place
	dir  string
	says func() // called at the first transfer
}

func (b branch) open(ctx context.Context) (strata.Client, error) {
	return b.Open(ctx, strata.Config{Dir: b.dir})
}

// found creates the topics, and orders all transfers.
func (b branch) found(ctx context.Context) error {
	c, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range []string{"transfers", "debits", "credits"} {
		if err := c.CreateTopic(ctx, b.Name(name), topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	orders := make([]record.Record, transfers)
	for i := range orders {
		from, to := i%accounts, (i*7+3)%accounts
		orders[i] = record.String(b.Name("transfers"), fmt.Sprint(from), fmt.Sprintf("%d %d %d %d", i, from, to, 1+i%9))
	}
	_, err = p.Send(ctx, orders...)
	return err
}

// work makes all transfers that the bank has not recorded as made.
func (b branch) work(ctx context.Context, mode string, says io.Writer) error {
	c, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// A static member gets the partitions of the killed process at once.
	in, err := consumer.New(c, consumer.Config{
		Group: b.Name("bank"), Topics: []string{b.Name("transfers")}, InstanceID: "bank", SessionTimeout: 6 * time.Second, MaxPollRecords: 5, CommitInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = c.WaitGroup(ctx, b.Name("bank"), allRead)
	}()
	b.says = sync.OnceFunc(func() { fmt.Fprintln(says, "at work") })
	if mode == exactly {
		return b.inTransactions(ctx, c, in)
	}
	return b.withoutTransactions(ctx, c, in)
}

// allRead reports whether the group has committed all transfers.
func allRead(g group.Info) bool {
	read := int64(0)
	for _, o := range g.Offsets {
		read += o.Offset
	}
	return read >= transfers
}

// inTransactions makes the transfers of a batch and commits their offsets in one transaction.
func (b branch) inTransactions(ctx context.Context, c strata.Client, in *consumer.Consumer) error {
	p, err := producer.New(c, producer.Config{TransactionalID: b.Name(teller)})
	if err != nil {
		return err
	}
	defer p.Close()
	return consumer.Transform(ctx, in, p, func(order record.Record, emit func(record.Record)) error {
		b.says()
		time.Sleep(time.Millisecond) // the bank thinks
		debit, credit, err := b.book(order)
		if err != nil {
			return err
		}
		emit(debit)
		emit(credit)
		return nil
	})
}

// withoutTransactions makes one transfer after the other. The consumer commits processed records.
func (b branch) withoutTransactions(ctx context.Context, c strata.Client, in *consumer.Consumer) error {
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for order, err := range in.Records(ctx) {
		if err != nil {
			return err
		}
		b.says()
		time.Sleep(time.Millisecond)
		debit, credit, err := b.book(order)
		if err != nil {
			return err
		}
		if _, err := p.Send(ctx, debit); err != nil {
			return err
		}
		if _, err := p.Send(ctx, credit); err != nil {
			return err
		}
	}
	return nil
}

// book returns the debit and the credit of an order: "number amount", with the account as key.
func (b branch) book(order record.Record) (debit, credit record.Record, err error) {
	f := strings.Fields(string(order.Value))
	if len(f) != 4 {
		return debit, credit, fmt.Errorf("%q is no order", order.Value)
	}
	entry := f[0] + " " + f[3]
	return record.String(b.Name("debits"), f[1], entry), record.String(b.Name("credits"), f[2], entry), nil
}

// A balance is the result of an audit.
type balance struct {
	debited, credited int
	seen              map[int][2]int // debits and credits of each transfer
	repeated          int            // transfers with more than one of either
}

// once returns the number of transfers with one debit and one credit.
func (a balance) once() (n int) {
	for _, s := range a.seen {
		if s == [2]int{1, 1} {
			n++
		}
	}
	return n
}

// audit adds up the committed records.
func (b branch) audit(ctx context.Context, mode string) (balance, error) {
	a := balance{seen: map[int][2]int{}}
	c, err := b.open(ctx)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if mode == exactly {
		// A transaction that the killed bank had decided is completed, an undecided one is aborted.
		// Without this call that would happen a moment later.
		p, err := producer.New(c, producer.Config{TransactionalID: b.Name(teller)})
		if err != nil {
			return a, err
		}
		defer p.Close()
		if err := p.InitTransactions(ctx); err != nil {
			return a, err
		}
	}
	for side, name := range []string{"debits", "credits"} {
		for r, err := range consumer.Read(ctx, c, consumer.ReadConfig{Topic: b.Name(name)}) { // committed records only
			if err != nil {
				return a, err
			}
			number, amount, _ := strings.Cut(string(r.Value), " ")
			i, err := strconv.Atoi(number)
			if err != nil {
				return a, err
			}
			money, err := strconv.Atoi(amount)
			if err != nil {
				return a, err
			}
			s := a.seen[i]
			if s[side]++; s[side] == 2 && s[1-side] < 2 {
				a.repeated++
			}
			a.seen[i] = s
			if side == 0 {
				a.debited += money
			} else {
				a.credited += money
			}
		}
	}
	return a, nil
}
