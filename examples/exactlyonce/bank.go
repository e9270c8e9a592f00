package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
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

// found creates the topics, and orders all transfers.
func found(ctx context.Context, dir string) error {
	c, err := strata.Open(strata.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range []string{"transfers", "debits", "credits"} {
		if err := c.CreateTopic(ctx, name, topic.Config{Partitions: 2}); err != nil {
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
		orders[i] = record.String("transfers", fmt.Sprint(from), fmt.Sprintf("%d %d %d %d", i, from, to, 1+i%9))
	}
	_, err = p.Send(ctx, orders...)
	return err
}

// work makes all transfers that the bank has not recorded as made.
func work(ctx context.Context, dir, mode string, says io.Writer) error {
	c, err := strata.Open(strata.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer c.Close()
	in, err := consumer.New(c, consumer.Config{Group: "bank", Topics: []string{"transfers"}, MaxPollRecords: 5, CommitInterval: 10 * time.Millisecond})
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = c.WaitGroup(ctx, "bank", allRead)
	}()
	fmt.Fprintln(says, "at work")
	if mode == exactly {
		return inTransactions(ctx, c, in)
	}
	return withoutTransactions(ctx, c, in)
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
func inTransactions(ctx context.Context, c strata.Client, in *consumer.Consumer) error {
	p, err := producer.New(c, producer.Config{TransactionalID: teller})
	if err != nil {
		return err
	}
	defer p.Close()
	return consumer.Transform(ctx, in, p, func(order record.Record, emit func(record.Record)) error {
		time.Sleep(time.Millisecond) // the bank thinks
		debit, credit, err := book(order)
		if err != nil {
			return err
		}
		emit(debit)
		emit(credit)
		return nil
	})
}

// withoutTransactions makes one transfer after the other. The consumer commits processed records.
func withoutTransactions(ctx context.Context, c strata.Client, in *consumer.Consumer) error {
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for order, err := range in.Records(ctx) {
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		debit, credit, err := book(order)
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
func book(order record.Record) (debit, credit record.Record, err error) {
	f := strings.Fields(string(order.Value))
	if len(f) != 4 {
		return debit, credit, fmt.Errorf("%q is no order", order.Value)
	}
	entry := f[0] + " " + f[3]
	return record.String("debits", f[1], entry), record.String("credits", f[2], entry), nil
}

// A balance is the result of an audit.
type balance struct {
	debited, credited int
	seen              map[int][2]int // debits and credits of each transfer
	repeated          int            // transfers with more than one of either
}

// once returns the number of transfers with one debit and one credit.
func (b balance) once() (n int) {
	for _, s := range b.seen {
		if s == [2]int{1, 1} {
			n++
		}
	}
	return n
}

// audit adds up the committed records.
func audit(ctx context.Context, dir, mode string) (balance, error) {
	b := balance{seen: map[int][2]int{}}
	c, err := strata.Open(strata.Config{Dir: dir})
	if err != nil {
		return b, err
	}
	defer c.Close()
	if mode == exactly {
		// A transaction that the killed bank had decided is completed, an undecided one is aborted.
		// Without this call that would happen a moment later.
		p, err := producer.New(c, producer.Config{TransactionalID: teller})
		if err != nil {
			return b, err
		}
		defer p.Close()
		if err := p.InitTransactions(ctx); err != nil {
			return b, err
		}
	}
	for side, name := range []string{"debits", "credits"} {
		for r, err := range consumer.Read(ctx, c, consumer.ReadConfig{Topic: name}) { // committed records only
			if err != nil {
				return b, err
			}
			number, amount, _ := strings.Cut(string(r.Value), " ")
			i, err := strconv.Atoi(number)
			if err != nil {
				return b, err
			}
			money, err := strconv.Atoi(amount)
			if err != nil {
				return b, err
			}
			s := b.seen[i]
			if s[side]++; s[side] == 2 && s[1-side] < 2 {
				b.repeated++
			}
			b.seen[i] = s
			if side == 0 {
				b.debited += money
			} else {
				b.credited += money
			}
		}
	}
	return b, nil
}
