package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A Partition is one replica of one partition. All methods are safe for concurrent use. Methods do
// not block unless their comments state it.
type Partition struct {
	tp       record.TopicPartition
	log      *log.Log
	disk     diskWatch
	appended func(*log.Append) // done; a field, since a method value allocates
	copied   func(*log.Append) // done, of a follower
	opened   time.Time         // origin of the deadlines
	verify   func(TxnQuestion) // nil if no coordinator verifies transactions
	durable  func()            // Config.Durable
	damaged  func(error)       // Config.Damaged
	logger   *slog.Logger
	settings
	watermarks
	stats counters

	// unchecked is the offset of the snapshot that state comes from and that checkSnapshot has to
	// compare with the log; 0: none. Stored by Open and cut, and by the goroutine that leads a round.
	unchecked atomic.Int64

	// unawaitedBytes is the size of the batches that were answered before they are written, and
	// are not written yet. The submitter of a batch adds its size, which is subtracted when the
	// log is done with it.
	unawaitedBytes atomic.Int64

	// mu guards the fields below, and is held for every store to watermarks. Never held while
	// waiting, nor while callbacks run.
	mu sync.Mutex
	admission
	waiting
	leading
	closed bool
	epoch  int32 // leader epoch that it leads or follows in, or did last; -1: none

	role chanlock.Lock // see takeRole

	timeouts alarm.Alarm            // expire, at the earliest of deadlines or before
	closing  atomic.Bool            // set by the first closer, and stays
	resigned atomic.Bool            // set by Resign, and stays
	ending   atomic.Pointer[ending] // of the first closer; nil until then
}

// ending is the close of a partition, for which later closers wait.
type ending struct {
	done chan struct{} // closed when Close has ended
	err  error         // read after done
}

// settings are the fields that Reconfigure changes. Any goroutine may read them.
type settings struct {
	rules  atomic.Pointer[rules] // the leader's rules for batches
	expiry atomic.Int64          // of producer ids, a time.Duration
	// syncOnAck: the high watermark waits for stable storage. Stored by the log's writer, under mu.
	syncOnAck atomic.Bool
}

// watermarks are stored under mu (by Open before other goroutines have the partition) and read by
// any goroutine.
type watermarks struct {
	hw, lso     atomic.Int64
	leaderEpoch atomic.Int32 // -1: not the leader
	enough      atomic.Bool  // of the leader: as many are in sync as there must be
	anyAborted  atomic.Bool  // there may be aborted transactions: reads look for them
	unseeded    atomic.Bool  // see isUnseeded; as of the last open or cut
	// cuts is odd while the log is being truncated, or could not be, and the watermarks are those
	// before it; it grows with each truncation.
	cuts atomic.Int64
}

// admission decides about appends. Guarded by mu.
type admission struct {
	state *producers
	// stale means that state does not agree with the log, which is being truncated, or that it
	// could not be rebuilt after that.
	stale   bool
	inRound int32  // appends of idempotent producers in round; 0: it is empty
	round   round  // admitted and not yet written
	growth  growth // bytes by offset, for readers that wait for many
}

// waiting has everything that waits for a watermark, or the time. Guarded by mu.
type waiting struct {
	// acks are written, and wait for the high watermark to pass their last offset.
	acks       watermark.Queue[*ProduceRequest]
	hwWatches  watermark.Queue[*watch]
	lsoWatches watermark.Queue[*watch]
	deadlines  watermark.Queue[*ProduceRequest] // by time since opened, ns
}

// Open opens the replica in dir, creating it if there is none, and recovers its producer state from
// the newest valid snapshot and the later part of the log. The replica does not lead until Lead or
// BecomeLeader. Open blocks for the recovery of the log. It returns the errors of log.Open and read
// errors of snapshots. A damaged snapshot is replaced by an older one and more of the log; a
// snapshot that the disk cannot read is not.
func Open(dir string, cfg Config) (*Partition, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Partition{
		tp:     record.TopicPartition{Topic: cfg.Topic, Partition: cfg.Partition},
		opened: time.Now(), verify: cfg.Verify, durable: cfg.Durable, damaged: cfg.Damaged, logger: cfg.Logger, epoch: -1,
	}
	p.appended, p.copied, p.timeouts.Do = p.onAppended, p.onCopied, p.expire
	p.expiry.Store(int64(cfg.ProducerIDExpiration))
	p.syncOnAck.Store(cfg.Log.Sync == log.SyncOnAck)
	p.leaderEpoch.Store(-1)
	p.rules.Store(newRules(cfg))
	cfg.Log.Owner = (*owner)(p)
	l, err := log.Open(dir, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("open partition %s-%d: %w", cfg.Topic, cfg.Partition, err)
	}
	p.log = l
	if p.state, err = p.rebuild(); err == nil {
		p.resume(cfg.HighWatermark)
		// Compaction stays below it: in-sync replicas have all records that it removed.
		l.BoundPurged(p.hw.Load())
	}
	if err == nil && cfg.TopicID != ([16]byte{}) {
		err = writeMetadata(cfg.Log.FS, dir, cfg.TopicID)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open partition %s-%d: %w", cfg.Topic, cfg.Partition, err), l.Close())
	}
	return p, nil
}

// TopicPartition returns the name from the Config.
func (p *Partition) TopicPartition() record.TopicPartition { return p.tp }

// LogStartOffset returns the first readable offset.
func (p *Partition) LogStartOffset() int64 { return p.log.StartOffset() }

// LogEndOffset returns the offset that the next record gets.
func (p *Partition) LogEndOffset() int64 { return p.log.EndOffset() }

// EpochEnd returns the largest leader epoch that is not above epoch, and its end: the start of the
// next epoch, or the log end for the current one. Both are -1 if no such epoch is known. Kafka:
// OffsetForLeaderEpoch.
func (p *Partition) EpochEnd(epoch int32) (int32, int64) { return p.log.Epochs().EndOffsetFor(epoch) }

// LastEpoch returns the newest leader epoch that the log has, also one without records, or -1 if it
// has none.
func (p *Partition) LastEpoch() int32 {
	epoch, _ := p.log.Epochs().Latest()
	return epoch
}

// Producers lists the producers that have state in this partition, by producer id, with their open
// transactions.
func (p *Partition) Producers() []ProducerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.states()
}

// LastProducerID returns the largest producer id that has state in this partition, -1 if none has.
func (p *Partition) LastProducerID() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := int64(-1)
	for id := range p.state.m {
		last = max(last, id)
	}
	return last
}

// wrap names the partition and translates errors of the log.
func (p *Partition) wrap(op string, err error) error {
	if errors.Is(err, log.ErrClosed) {
		if err = ErrClosed; p.resigned.Load() {
			err = ErrNotLeader
		}
	}
	return fmt.Errorf("%s %s-%d: %w", op, p.tp.Topic, p.tp.Partition, err)
}

// Cut returns the present content of the partition's log, as log.Log.Cut does, for BackupOf.
func (p *Partition) Cut() (*log.Cut, error) {
	c, err := p.log.Cut()
	if err != nil {
		return nil, p.wrap("cut", err)
	}
	return c, nil
}

// BackupOf copies a cut of the partition to dir, as log.Cut.Backup does: the copy is a partition
// with the same records and producer state. Appends continue meanwhile. It returns log.ErrChanged
// if the log was truncated since.
func (p *Partition) BackupOf(ctx context.Context, c *log.Cut, fsys vfs.FS, dir string) error {
	if err := c.Backup(ctx, fsys, dir); err != nil {
		return p.wrap("backup", err)
	}
	return nil
}
