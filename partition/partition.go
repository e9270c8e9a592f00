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
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A Partition is one replica of one partition. All methods are safe for concurrent use; none but
// those that say so block.
type Partition struct {
	dir      string
	tp       record.TopicPartition
	log      *log.Log
	appended func(*log.Append) // done; a field, since a method value allocates
	opened   time.Time         // origin of the deadlines
	logger   *slog.Logger
	settings
	watermarks
	stats counters

	// unawaitedBytes are those of batches that were answered before they were written, and are not
	// written yet. Added by who submits one, taken off when the log is done with it.
	unawaitedBytes atomic.Int64

	// mu guards the fields below, and is held for every store to watermarks. Never held while
	// waiting, nor while callbacks run.
	mu sync.Mutex
	admission
	waiting
	closed bool

	timeouts alarm.Alarm   // expire, at the earliest of deadlines or before
	closing  atomic.Bool   // set by the first who closes, and stays
	resigned atomic.Bool   // set by Resign, and stays
	done     chan struct{} // closed when Close is through
	closeErr error         // written before done is closed, read after
}

// settings are what Reconfigure changes, read by anyone.
type settings struct {
	rules  atomic.Pointer[rules] // what the leader checks batches against
	expiry atomic.Int64          // of producer ids, a time.Duration
	// syncOnAck: the high watermark waits for stable storage. Stored by the log's writer, under mu.
	syncOnAck atomic.Bool
}

// watermarks are stored under mu (by Open before anybody knows the partition) and read by anyone.
type watermarks struct {
	hw, lso     atomic.Int64
	leaderEpoch atomic.Int32          // -1: not the leader
	anyAborted  atomic.Bool           // there may be aborted transactions: reads look for them
	abortedErr  atomic.Pointer[error] // one could not be recorded
}

// admission decides about appends. Guarded by mu.
type admission struct {
	state *producers
	// stale: state is not that of the log, which is being truncated, or it could not be rebuilt
	// after that.
	stale   bool
	round   round  // admitted and not yet written
	inRound int    // how many appends of idempotent producers that are; 0: round is empty
	growth  growth // bytes by offset, for readers who wait for many
}

// waiting is who waits for a watermark, or the time. Guarded by mu.
type waiting struct {
	// acks are written, and wait for the high watermark to pass their last offset.
	acks       watermark.Queue[*ProduceRequest]
	hwWatches  watermark.Queue[*watch]
	lsoWatches watermark.Queue[*watch]
	deadlines  watermark.Queue[*ProduceRequest] // by time since opened, ns
}

// Open opens the replica in dir, creating it, and recovers its producer state: the newest valid
// snapshot and what the log holds after it. It leads nothing until BecomeLeader. It blocks for the
// recovery of the log, and fails with what log.Open fails with.
func Open(dir string, cfg Config) (*Partition, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Partition{
		dir: dir, tp: record.TopicPartition{Topic: cfg.Topic, Partition: cfg.Partition},
		opened: time.Now(), logger: cfg.Logger, done: make(chan struct{}),
	}
	p.appended, p.timeouts.Do = p.onAppended, p.expire
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
		p.hw.Store(l.StartOffset())
		p.lso.Store(l.StartOffset())
	}
	if err == nil && cfg.TopicID != ([16]byte{}) {
		err = writeMetadata(cfg.Log.FS, dir, cfg.TopicID)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open partition %s-%d: %w", cfg.Topic, cfg.Partition, err), l.Close())
	}
	return p, nil
}

// BecomeLeader makes this replica the leader in the given epoch, which must be above any earlier
// one: the epoch's start is recorded before the first append. As the only replica its high
// watermark is at once what its sync policy allows. It may block for the disk.
func (p *Partition) BecomeLeader(epoch int32) error {
	if err := p.log.SetLeaderEpoch(epoch); err != nil {
		return p.wrap("become leader", err)
	}
	if p.syncOnAck.Load() && p.log.DurableOffset() < p.log.EndOffset() {
		// Written before a kill, and not known to be on stable storage.
		if err := p.log.Sync(); err != nil {
			return p.wrap("become leader", err)
		}
	}
	p.mu.Lock()
	if p.closed || p.stale || p.resigned.Load() {
		closed := p.closed
		p.mu.Unlock()
		if closed || p.resigned.Load() {
			return p.wrap("become leader", p.notLeading())
		}
		return p.wrap("become leader", errors.New("a truncation has failed: open the partition again"))
	}
	p.leaderEpoch.Store(epoch)
	d := p.advanceLocked(p.safeEnd())
	p.mu.Unlock()
	d.run()
	p.publish()
	return nil
}

// BecomeFollower ends this replica's leadership: appends and reads are refused with ErrNotLeader.
// Appends under way, and those that wait for acknowledgement, end with ErrNotLeaderAfterAppend.
// When it returns, none of them is decided to be a success any more.
func (p *Partition) BecomeFollower() {
	p.mu.Lock()
	p.leaderEpoch.Store(-1)
	d := p.releaseLocked(ErrNotLeaderAfterAppend)
	p.mu.Unlock()
	d.run()
}

// Resign makes this replica refuse new appends and reads with ErrNotLeader, for good, also when it
// is closed afterwards; who waits for records is woken. Appends under way end as they would have,
// and Close waits for them: so a broker leaves in order.
func (p *Partition) Resign() {
	p.mu.Lock()
	p.resigned.Store(true)
	d := due{watches: p.allWatchesLocked()}
	p.mu.Unlock()
	d.run()
}

// TruncateTo removes the batches that reach to offset or beyond it, as a follower does with what
// its leader does not have, and takes the producer state back to that point. It blocks for the
// disk. It returns ErrLeader on a leader: its own log is the truth. If it fails, the partition must
// be opened again before it can lead.
func (p *Partition) TruncateTo(offset int64) error {
	if p.leaderEpoch.Load() >= 0 {
		return p.wrap("truncate", ErrLeader)
	}
	if offset < 0 { // before anything is stale
		return p.wrap("truncate", fmt.Errorf("%w: %d", log.ErrOffsetOutOfRange, offset))
	}
	p.mu.Lock()
	p.stale = true // a segment that is closed in between must not get a snapshot of what is cut off
	p.mu.Unlock()
	if err := p.log.TruncateTo(offset); err != nil {
		return p.wrap("truncate", err)
	}
	state, err := p.rebuild()
	if err != nil {
		return p.wrap("truncate", err)
	}
	end := p.log.EndOffset()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.stale = state, false
	p.growth.cut(end)
	p.hw.Store(min(p.hw.Load(), end))
	p.lso.Store(min(p.lso.Load(), end))
	return nil
}

// LeaderEpoch returns the epoch in which this replica leads, -1 if it does not.
func (p *Partition) LeaderEpoch() int32 {
	if p.resigned.Load() {
		return -1
	}
	return p.leaderEpoch.Load()
}

// TopicPartition returns the name that the Config gave.
func (p *Partition) TopicPartition() record.TopicPartition { return p.tp }

// LogStartOffset returns the first readable offset.
func (p *Partition) LogStartOffset() int64 { return p.log.StartOffset() }

// LogEndOffset returns the offset that the next record gets.
func (p *Partition) LogEndOffset() int64 { return p.log.EndOffset() }

// EpochEnd returns the largest leader epoch that is not above epoch, and the offset where it ended:
// the start of the next, or the log end for the current one. Both are -1 if nothing is known.
// Kafka: OffsetForLeaderEpoch.
func (p *Partition) EpochEnd(epoch int32) (int32, int64) { return p.log.Epochs().EndOffsetFor(epoch) }

// Producers lists the producer ids that have written here, by id, with their open transactions.
func (p *Partition) Producers() []ProducerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.states()
}

// Close refuses new calls with ErrClosed and wakes who waits for records, lets the appends under
// way end as they would have, writes a snapshot of the producer state and closes the log. What is
// not acknowledged by then fails with ErrClosed, or ErrNotLeaderAfterAppend after Resign. It may be
// called repeatedly and concurrently; every call returns when all is done, with the same error.
func (p *Partition) Close() error { return p.shut(p.log.Close) }

// Remove closes the partition and deletes its directory. After or during a Close it removes nothing
// and returns ErrClosed.
func (p *Partition) Remove() error {
	err := p.shut(p.log.Remove)
	// it was Close that closed the log
	if again := p.log.Remove(); errors.Is(again, log.ErrClosed) {
		return p.wrap("remove", again)
	}
	return err
}

func (p *Partition) shut(end func() error) error {
	if !p.closing.CompareAndSwap(false, true) {
		<-p.done
		return p.closeErr
	}
	p.mu.Lock()
	p.closed = true
	d := due{watches: p.allWatchesLocked()}
	p.mu.Unlock()
	d.run()

	p.closeErr = end() // completes all appends: the high watermark still moves

	p.mu.Lock()
	p.leaderEpoch.Store(-1)
	cause := ErrClosed
	if p.resigned.Load() {
		cause = ErrNotLeaderAfterAppend
	}
	d = p.releaseLocked(cause)
	p.timeouts.Stop()
	p.mu.Unlock()
	d.run()
	p.timeouts.Wait()
	close(p.done)
	return p.closeErr
}

// releaseLocked takes out all who wait: acknowledgements fail with err, waiters look again.
func (p *Partition) releaseLocked(err error) (d due) {
	for e := p.acks.Pop(1<<63 - 1); e != nil; e = p.acks.Pop(1<<63 - 1) {
		e.Value.result.Err = p.wrap("produce", err)
		p.decideLocked(e.Value)
		d.add(e.Value)
	}
	d.watches = p.allWatchesLocked()
	return d
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

// Backup copies the partition's log to dir, as log.Log.Backup does: a new partition of the same
// records, which remembers its producers as this one does. Appends go on meanwhile.
func (p *Partition) Backup(ctx context.Context, fsys vfs.FS, dir string) error {
	if err := p.log.Backup(ctx, fsys, dir); err != nil {
		return p.wrap("backup", err)
	}
	return nil
}
