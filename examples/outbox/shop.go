package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// The two shops.
const (
	withOutbox   = "with an outbox"
	bothByItself = "row first, then the event"
)

const (
	relayStep = 20                   // events of one transaction, at most
	thinking  = 3 * time.Millisecond // of the shop, about an order
	lookEvery = 2 * thinking         // of the relay, into the outbox
)

// The place of the shop, and its names there.
var (
	at       place.Place
	relayID  string                // transactional id and group of the relay
	events   string                // the topic
	position record.TopicPartition // of the relay: a group's offset, which may be any number
)

// settle puts the shop at a place.
func settle(p place.Place) {
	at, relayID, events = p, p.Name("outbox-relay"), p.Name("orders")
	position = record.TopicPartition{Topic: events}
}

func open(ctx context.Context, dir string) (strata.Client, error) {
	return at.Open(ctx, strata.Config{Dir: filepath.Join(dir, "strata")})
}

// found creates the topic.
func found(ctx context.Context, dir string) error {
	c, err := open(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(c.CreateTopic(ctx, events, topic.Config{Partitions: 1}), c.Close())
}

// work takes the orders that were not taken yet.
func work(ctx context.Context, dir, mode string, says io.Writer) error {
	c, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	db, err := openDatabase(dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(says, "at work")
	if mode == withOutbox {
		return shopWithOutbox(ctx, c, db)
	}
	return shopWithout(ctx, c, db)
}

// shopWithOutbox writes an order and its event to the database at once. The relay, here on the same
// goroutine, sends the new events of the outbox.
func shopWithOutbox(ctx context.Context, c strata.Client, db *database) error {
	p, err := producer.New(c, producer.Config{TransactionalID: relayID})
	if err != nil {
		return err
	}
	defer p.Close()
	sent, err := relayedSoFar(ctx, c, p)
	if err != nil {
		return err
	}
	for looked := time.Now(); len(db.Orders) < orders || sent < len(db.Outbox); {
		if len(db.Orders) < orders {
			order := fmt.Sprint("order ", len(db.Orders))
			time.Sleep(thinking)
			if err := db.transact(func(t *tables) {
				t.Orders = append(t.Orders, order)
				t.Outbox = append(t.Outbox, order+" was taken")
			}); err != nil {
				return err
			}
		}
		if time.Since(looked) < lookEvery && len(db.Orders) < orders {
			continue
		}
		if sent, err = relay(ctx, p, db.Outbox, sent); err != nil {
			return err
		}
		looked = time.Now()
	}
	return nil
}

// relayedSoFar returns the number of events of the outbox that were sent. It first ends the
// transaction that an earlier relay left open.
func relayedSoFar(ctx context.Context, c strata.Client, p *producer.Producer) (int, error) {
	if err := p.InitTransactions(ctx); err != nil {
		return 0, err
	}
	// The first group of a new cluster has to wait for its coordinator.
	g, err := c.WaitGroup(ctx, relayID, func(group.Info) bool { return true })
	return int(g.Offsets[position].Offset), err
}

// relay sends the new events of the outbox and commits its position, in one transaction.
func relay(ctx context.Context, p *producer.Producer, outbox []string, sent int) (int, error) {
	next := min(len(outbox), sent+relayStep)
	err := p.Transact(ctx, func(tx *producer.Txn) error {
		for _, event := range outbox[sent:next] {
			if err := tx.Send(ctx, record.String(events, "", event)); err != nil {
				return err
			}
		}
		return tx.CommitOffsets(ctx, group.Metadata{Group: relayID, Generation: -1}, record.Offsets{position: int64(next)})
	})
	if err != nil {
		return sent, err
	}
	return next, nil
}

// shopWithout writes an order to the database, and then its event to the topic.
func shopWithout(ctx context.Context, c strata.Client, db *database) error {
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for len(db.Orders) < orders {
		order := fmt.Sprint("order ", len(db.Orders))
		if err := db.transact(func(t *tables) { t.Orders = append(t.Orders, order) }); err != nil {
			return err
		}
		time.Sleep(thinking)
		if _, err := p.Send(ctx, record.String(events, "", order+" was taken")); err != nil {
			return err
		}
	}
	return nil
}

// A comparison is the result of comparing rows and events.
type comparison struct{ rows, events, silent, repeated int }

// compare reads both stores, and deletes the topic and the group elsewhere.
func compare(ctx context.Context, dir string) (a comparison, err error) {
	db, err := openDatabase(dir)
	if err != nil {
		return a, err
	}
	c, err := open(ctx, dir)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, at.Close(c)) }()
	seen := map[string]int{}
	for r, err := range consumer.Read(ctx, c, consumer.ReadConfig{Topic: events}) {
		if err != nil {
			return a, err
		}
		seen[string(r.Value)]++
		a.events++
	}
	a.rows = len(db.Orders)
	for _, order := range db.Orders {
		n := seen[order+" was taken"]
		if n == 0 {
			a.silent++
		}
		a.repeated += max(0, n-1)
		delete(seen, order+" was taken")
	}
	for _, n := range seen { // of no order
		a.repeated += n
	}
	return a, nil
}
