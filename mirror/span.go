package mirror

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

const (
	// deliveryWait is the time for the records of one transaction to reach the target, even one
	// large record. After an attempt that took longer, transactions are smaller.
	deliveryWait = 2 * time.Minute
	// requestWait bounds one request. A remote cluster has a shorter limit (RequestTimeout).
	requestWait = time.Minute
	// transactionWait is the time after which the target aborts a transaction. It exceeds
	// deliveryWait, so that the mirror learns the outcome first.
	transactionWait = 3 * time.Minute
	// quick is the time within which a commit shows that larger transactions are possible, and slow
	// the one after which they should be smaller: one request may take 10 s (package remote).
	quick, slow = 2500 * time.Millisecond, 10 * time.Second
)

// A span is records of one source partition that follow each other.
type span struct {
	tp      record.TopicPartition
	records []record.Record
}

func spansOf(b *consumer.Batch) (spans []span) {
	if b != nil {
		for tp, rs := range b.Partitions() {
			spans = append(spans, span{tp, rs})
		}
	}
	return spans
}

// measure returns the number of records, and the bytes of their keys, values and headers.
func measure(spans []span) (records, bytes int) {
	for _, s := range spans {
		records += len(s.records)
		for i := range s.records {
			bytes += sizeOf(&s.records[i])
		}
	}
	return records, bytes
}

func sizeOf(r *record.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// A bound limits one transaction. The zero value permits all records of one poll. A single record
// may exceed the bytes.
type bound struct{ records, bytes int }

// split returns the spans of the next transaction, and those that remain.
func (b bound) split(spans []span) (next, rest []span) {
	if b.records == 0 {
		return spans, nil
	}
	records, bytes := 0, 0
	for i, s := range spans {
		for j := range s.records {
			n := sizeOf(&s.records[j])
			if records == 0 || records < b.records && bytes+n <= b.bytes {
				records, bytes = records+1, bytes+n
				continue
			}
			next = slices.Clone(spans[:i])
			if j > 0 {
				next = append(next, span{s.tp, s.records[:j]})
			}
			return next, slices.Concat([]span{{s.tp, s.records[j:]}}, spans[i+1:])
		}
	}
	return spans, nil
}

// shrink divides the size of a transaction that failed or was slow. It becomes the new bound.
func (b *bound) shrink(tried []span, divisor int) {
	if records, bytes := measure(tried); records > 0 {
		b.records, b.bytes = max(1, records/divisor), max(1, bytes/divisor)
	}
}

// grow doubles the bound, up to the full size.
func (b *bound) grow() {
	if b.records, b.bytes = 2*b.records, 2*b.bytes; b.records >= batchRecords && b.bytes >= batchBytes {
		*b = bound{}
	}
}

// advance returns the positions behind spans that are a part of a poll.
func (e *engine) advance(spans []span) map[*flow][]reached {
	moves := map[*flow][]reached{}
	for _, fl := range e.flows {
		for _, s := range spans {
			if s.tp.Topic != fl.source {
				continue
			}
			if moves[fl] == nil {
				moves[fl] = slices.Clone(fl.reached)
			}
			last, at := &s.records[len(s.records)-1], &moves[fl][s.tp.Partition]
			at.next = last.Offset + 1
			at.forwarded(last)
		}
	}
	return moves
}

// unsendable reports whether an error means that a repetition would be rejected, too: a record of
// the transaction is too large, or has a timestamp or key that the target does not accept.
func unsendable(err error) bool {
	return !errors.Is(err, producer.ErrFatal) && (errors.Is(err, producer.ErrMessageTooLarge) ||
		errors.Is(err, producer.ErrInvalidTimestamp) || errors.Is(err, producer.ErrInvalidRecord))
}

// part writes the next transaction of spans. It returns the spans that remain: all of them after an
// error. moves are the positions behind all.
func (e *engine) part(moves map[*flow][]reached, spans []span) (rest []span, err error) {
	for {
		next, rest := e.bound.split(spans)
		to := moves
		if len(rest) > 0 {
			to = e.advance(next)
		}
		began := time.Now()
		err := e.attempt(to, next)
		took := time.Since(began)
		records := 0
		for _, s := range next {
			records += len(s.records)
		}
		switch {
		case err == nil:
			switch {
			case took > slow:
				e.bound.shrink(next, 2)
			case len(rest) > 0 && took < quick:
				e.bound.grow()
			}
			return rest, nil
		case records > 0 && unsendable(err) && e.work.Err() == nil:
			if records == 1 {
				r := &next[0].records[0]
				return spans, e.stop(next[0].tp.Topic, next[0].tp.Partition, r.Offset, fmt.Errorf("%w: %w", ErrUnsendable, err))
			}
			e.bound.shrink(next, 2) // until the record is alone
			if e.ctx.Err() == nil {
				continue
			}
			return spans, e.ctx.Err()
		case errors.Is(err, producer.ErrTimeout) || took >= deliveryWait:
			e.bound.shrink(next, 4) // each attempt takes minutes
		}
		return spans, err
	}
}
