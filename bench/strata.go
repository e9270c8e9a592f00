package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

func init() {
	register(entry{name: "strata", log: func() Subject { return &strataLog{read: readBorrowed} }, note: "package log; replay by log.Read and borrowed records"})
	register(entry{name: "strata-owned", log: func() Subject { return &strataLog{read: readOwned} }, skip: "W1 W2 W5", note: "replay of record.Record by value"})
	register(entry{name: "strata-raw", log: func() Subject { return &strataLog{read: readRaw} }, skip: "W1 W2 W5", note: "replay of whole batches, CRC checked"})
	register(entry{name: "strata-6logs", log: func() Subject { return &strataLog{n: 6} }, skip: "W1 W3 W5", note: "writers spread over 6 logs of one directory"})
	register(entry{name: "strata-64logs", log: func() Subject { return &strataLog{n: 64} }, skip: "W1 W3 W5", note: "writers spread over 64 logs of one directory"})
}

// strataLog is one log, or several in one directory with one syncer.
type strataLog struct {
	n    int
	read func(*strataLog, func([]byte)) error

	dir  *log.Directory
	logs []*log.Log
	next atomic.Uint64
	recs []record.Record
	size int
}

func (s *strataLog) Open(dir string, o Options) (err error) {
	s.size = o.RecSize
	cfg := log.Config{Sync: log.SyncNever}
	if o.Sync {
		cfg.Sync = log.SyncOnAck
	}
	if s.n == 0 {
		l, err := log.Open(filepath.Join(dir, "log"), cfg)
		s.logs = []*log.Log{l}
		return err
	}
	if s.dir, err = log.OpenDirectory(dir, log.DirectoryConfig{}); err != nil {
		return err
	}
	cfg.Dir = s.dir
	for i := range s.n {
		l, err := log.Open(filepath.Join(dir, fmt.Sprintf("bench-%d", i)), cfg)
		if err != nil {
			return err
		}
		s.logs = append(s.logs, l)
	}
	return nil
}

func (s *strataLog) AppendBatch(recs [][]byte) error {
	if cap(s.recs) < len(recs) {
		s.recs = make([]record.Record, len(recs))
	}
	rs := s.recs[:len(recs)]
	for i, r := range recs {
		rs[i].Value = r
	}
	_, err := s.logs[0].Append(bg, rs...)
	return err
}

func (s *strataLog) AppendOne(rec []byte) error {
	l := s.logs[0]
	if s.n > 0 {
		l = s.logs[s.next.Add(1)%uint64(s.n)]
	}
	_, err := l.Append(context.Background(), record.Record{Value: rec})
	return err
}

func (s *strataLog) ReadAll(fn func([]byte)) error { return s.read(s, fn) }

func readBorrowed(s *strataLog, fn func([]byte)) error {
	l := s.logs[0]
	var r record.Record
	return eachChunk(l, func(p []byte) (int64, error) {
		next := int64(-1)
		for len(p) > 0 {
			b, err := record.ParseUnverified(p)
			if err != nil {
				return 0, err
			}
			it, err := b.Records(0)
			if err != nil {
				return 0, err
			}
			for {
				ok, err := it.Next(&r)
				if err != nil {
					return 0, err
				}
				if !ok {
					break
				}
				fn(r.Value)
			}
			p, next = p[b.Size():], b.NextOffset()
		}
		return next, nil
	})
}

func readOwned(s *strataLog, fn func([]byte)) error {
	for r, err := range s.logs[0].Records(0) {
		if err != nil {
			return err
		}
		fn(r.Value)
	}
	return nil
}

func readRaw(s *strataLog, fn func([]byte)) error {
	return eachChunk(s.logs[0], func(p []byte) (int64, error) {
		next := int64(-1)
		for len(p) > 0 {
			b, err := record.ParseUnverified(p)
			if err != nil {
				return 0, err
			}
			for range b.RecordCount {
				fn(p[:s.size]) // the records are only counted, not decoded
			}
			p, next = p[b.Size():], b.NextOffset()
		}
		return next, nil
	})
}

// eachChunk reads the log in pieces of about 1 MiB. fn returns the offset of the next piece.
func eachChunk(l *log.Log, fn func(p []byte) (int64, error)) error {
	buf := make([]byte, 0, 1<<20)
	for from, end := l.StartOffset(), l.EndOffset(); from < end; {
		p, err := l.Read(buf[:0], from, cap(buf))
		if err != nil {
			return err
		}
		if from, err = fn(p); err != nil {
			return err
		}
		buf = p
	}
	return nil
}

func (s *strataLog) Close() error {
	var err error
	for _, l := range s.logs {
		if e := l.Close(); err == nil {
			err = e
		}
	}
	if s.dir != nil {
		if e := s.dir.Close(); err == nil {
			err = e
		}
	}
	return err
}
