// Command sql keeps balances in a SQL database, from payments in a topic. Each payment counts once,
// although the program fails several times. The database has the offsets too: each transaction
// writes a balance and the offset after its payment together. There is no consumer group: the
// program continues at the offsets in the database.
//
// The driver is a stand-in of some lines (driver.go), so that the example needs no database. The
// statements are those of SQLite and PostgreSQL; with their drivers only sql.Open changes.
//
//	go run ./examples/sql
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	payments     = "payments"
	partitions   = 3
	accounts     = 5
	count        = 300 // payments, each of one cent
	failEvery    = 40  // payments, between the failures of the program
	lastPayments = 4   // that are shown of one account
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sql:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := strata.Open(strata.Config{}) // in memory; Dir keeps it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	db, err := sql.Open("example", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := pay(ctx, cluster); err != nil {
		return err
	}
	failures := 0
	for {
		err := countUntilFailure(ctx, cluster, db)
		if err == nil {
			break
		}
		if !errors.Is(err, errFailed) {
			return err
		}
		failures++
	}
	fmt.Fprintf(out, "%d payments, counted by a program that failed %d times in the middle of one:\n", count, failures)
	if err := show(ctx, db, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "the last %d payments of account-2:", lastPayments)
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: payments, Key: []byte("account-2"), Last: lastPayments}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, " %s", r.Value)
	}
	_, err = fmt.Fprintln(out)
	return err
}

// pay writes the payments: the key is the account, the value the number of the payment.
func pay(ctx context.Context, cluster *strata.Cluster) (err error) {
	if err := cluster.EnsureTopic(ctx, payments, topic.Config{Partitions: partitions}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for i := range count {
		if _, err := p.Send(ctx, record.String(payments, fmt.Sprintf("account-%d", i%accounts), strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

// errFailed is the failure of the program, between the writes of a transaction and its commit.
var errFailed = errors.New("the program failed")

// countUntilFailure counts payments from the offsets in the database on, until there are no more or
// it fails.
func countUntilFailure(ctx context.Context, cluster *strata.Cluster, db *sql.DB) error {
	start, err := positions(ctx, db)
	if err != nil {
		return err
	}
	n := 0
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: payments, Start: start}) {
		if err != nil {
			return err
		}
		n++
		if err := countPayment(ctx, db, r, n == failEvery); err != nil {
			return err
		}
	}
	return nil
}

// positions returns the offsets that the database has; partitions without one begin at their first
// record.
func positions(ctx context.Context, db *sql.DB) (record.Offsets, error) {
	rows, err := db.QueryContext(ctx, selectOffsets, payments)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	start := record.Offsets{}
	for rows.Next() {
		at := record.TopicPartition{Topic: payments}
		var next int64
		if err := rows.Scan(&at.Partition, &next); err != nil {
			return nil, err
		}
		start[at] = next
	}
	return start, rows.Err()
}

// countPayment adds a payment to its balance, and writes the offset behind it, in one transaction.
func countPayment(ctx context.Context, db *sql.DB, r record.Record, fails bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if _, err := tx.ExecContext(ctx, addToBalance, string(r.Key), 1); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, setOffset, r.Topic, r.Partition, r.Offset+1); err != nil {
		return err
	}
	if fails {
		return errFailed
	}
	return tx.Commit()
}

// show prints the balances.
func show(ctx context.Context, db *sql.DB, out io.Writer) error {
	rows, err := db.QueryContext(ctx, selectBalances)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var account string
		var cents int64
		if err := rows.Scan(&account, &cents); err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s: %d cents\n", account, cents)
	}
	return rows.Err()
}
