package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A database has the data of the shop: any with transactions would do. This one is a file, which a
// transaction replaces as a whole.
type database struct {
	path string
	tables
}

type tables struct {
	Orders []string // rows
	Outbox []string // events by number; a real one deletes sent events
}

func openDatabase(dir string) (*database, error) {
	db := &database{path: filepath.Join(dir, "shop.json")}
	b, err := os.ReadFile(db.path)
	if errors.Is(err, fs.ErrNotExist) {
		return db, nil
	}
	if err != nil {
		return nil, err
	}
	return db, json.Unmarshal(b, &db.tables)
}

// transact makes a change durable, as a whole or not at all.
func (db *database) transact(change func(*tables)) error {
	change(&db.tables)
	b, err := json.Marshal(db.tables)
	if err != nil {
		return err
	}
	f, err := os.Create(db.path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), db.path)
}
