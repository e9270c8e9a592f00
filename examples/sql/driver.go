package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// The statements of the example. Its driver supports no others.
const (
	selectOffsets  = `SELECT partition, next FROM offsets WHERE topic = ?`
	setOffset      = `INSERT INTO offsets (topic, partition, next) VALUES (?, ?, ?) ON CONFLICT (topic, partition) DO UPDATE SET next = excluded.next`
	addToBalance   = `INSERT INTO balances (account, cents) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents`
	selectBalances = `SELECT account, cents FROM balances ORDER BY account`
)

func init() { sql.Register("example", database{}) }

// database creates a database in memory for each connection pool.
type database struct{}

func (database) OpenConnector(string) (driver.Connector, error) {
	return &store{tables: tables{map[place]int64{}, map[string]int64{}}}, nil
}

func (database) Open(string) (driver.Conn, error) { return nil, errors.New("example: use sql.Open") }

// A place is the key of the table offsets.
type place struct {
	topic     string
	partition int64
}

type tables struct {
	offsets  map[place]int64
	balances map[string]int64
}

func (t tables) clone() tables { return tables{maps.Clone(t.offsets), maps.Clone(t.balances)} }

// A store is the state that all connections of a pool share.
type store struct {
	mu     sync.Mutex // held while a transaction is under way, or a statement outside of one
	tables tables     // as of the last commit
}

func (s *store) Connect(context.Context) (driver.Conn, error) { return &connection{store: s}, nil }
func (s *store) Driver() driver.Driver                        { return database{} }

// A connection runs one transaction at a time, on a copy of the tables.
type connection struct {
	store *store
	copy  *tables // nil: no transaction is under way
}

func (c *connection) Prepare(query string) (driver.Stmt, error) { return &statement{c, query}, nil }
func (c *connection) Close() error                              { return nil }

func (c *connection) Begin() (driver.Tx, error) {
	c.store.mu.Lock()
	t := c.store.tables.clone()
	c.copy = &t
	return c, nil
}

func (c *connection) Commit() error {
	c.store.tables = *c.copy
	return c.Rollback()
}

func (c *connection) Rollback() error {
	c.copy = nil
	c.store.mu.Unlock()
	return nil
}

type statement struct {
	c     *connection
	query string
}

func (s *statement) Close() error  { return nil }
func (s *statement) NumInput() int { return -1 }

func (s *statement) Exec(args []driver.Value) (driver.Result, error) {
	if s.c.copy == nil {
		return nil, errors.New("example: writes want a transaction")
	}
	switch s.query {
	case setOffset:
		s.c.copy.offsets[place{args[0].(string), args[1].(int64)}] = args[2].(int64)
	case addToBalance:
		s.c.copy.balances[args[0].(string)] += args[1].(int64)
	default:
		return nil, fmt.Errorf("example: unknown statement %q", s.query)
	}
	return driver.RowsAffected(1), nil
}

func (s *statement) Query(args []driver.Value) (driver.Rows, error) {
	s.c.store.mu.Lock()
	defer s.c.store.mu.Unlock()
	t := s.c.store.tables
	switch s.query {
	case selectOffsets:
		r := &rows{columns: []string{"partition", "next"}}
		for at, next := range t.offsets {
			if at.topic == args[0] {
				r.values = append(r.values, []driver.Value{at.partition, next})
			}
		}
		return r, nil
	case selectBalances:
		r := &rows{columns: []string{"account", "cents"}}
		for _, account := range slices.Sorted(maps.Keys(t.balances)) {
			r.values = append(r.values, []driver.Value{account, t.balances[account]})
		}
		return r, nil
	}
	return nil, fmt.Errorf("example: unknown statement %q", s.query)
}

type rows struct {
	columns []string
	values  [][]driver.Value
}

func (r *rows) Columns() []string { return r.columns }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(r.values) == 0 {
		return io.EOF
	}
	copy(dest, r.values[0])
	r.values = r.values[1:]
	return nil
}
