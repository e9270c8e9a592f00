package group

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// fakeLog is the log of a partition of the offsets topic, for all leaders.
type fakeLog struct {
	f         *fakeStore
	data      []byte
	end       int64
	confirmed int // bytes of data that every later leader has
	readErr   error
}

// epochLog is a fakeLog in one leader epoch.
type epochLog struct {
	*fakeLog
	partition, epoch int32
}

// overLocked returns an error if the epoch has ended.
func (l *epochLog) overLocked() error {
	if now := l.f.leaderLocked(l.partition); now.epoch != l.epoch {
		return fmt.Errorf("%w: %w: epoch %d, not %d", ErrNotCoordinator, ErrMoving, now.epoch, l.epoch)
	}
	return nil
}

func (l *epochLog) Append(batch []byte, done func(error)) {
	l.f.mu.Lock()
	blocked := l.f.blocked
	l.f.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	l.f.mu.Lock()
	wait, err := l.f.syncTime, l.f.appendErr
	if over := l.overLocked(); over != nil {
		wait, err = 0, over
	}
	var through int
	if err == nil {
		through = l.appendLocked(batch)
	}
	l.f.mu.Unlock()
	confirm := func() {
		l.f.mu.Lock()
		if err == nil {
			if err = l.overLocked(); err != nil {
				err = fmt.Errorf("%w: %w", err, ErrUncertain)
			} else {
				l.confirmed = max(l.confirmed, through)
			}
		}
		l.f.mu.Unlock()
		done(err)
	}
	if wait > 0 {
		time.AfterFunc(wait, confirm)
		return
	}
	confirm()
}

func (l *epochLog) AppendMarker(marker []byte, _ int16, done func(error)) { l.Append(marker, done) }

func (l *epochLog) GuardTransaction(_ partition.TxnWrite, done func(error)) { done(nil) }

func (l *fakeLog) appendLocked(batch []byte) (through int) {
	at := len(l.data)
	l.data = append(l.data, batch...)
	record.SetBaseOffset(l.data[at:], l.end)
	b, err := record.ParseUnverified(l.data[at:])
	if err != nil {
		panic(err)
	}
	l.end = b.NextOffset()
	return len(l.data)
}

// cutLocked removes the unconfirmed batches, except the first keep of them. The rest counts as
// confirmed.
func (l *fakeLog) cutLocked(keep int) {
	at, end := 0, int64(0)
	for at < len(l.data) && (at < l.confirmed || keep > 0) {
		b, err := record.ParseUnverified(l.data[at:])
		if err != nil {
			panic(err)
		}
		if at >= l.confirmed {
			keep--
		}
		at += b.Size()
		end = b.NextOffset()
	}
	l.data, l.end, l.confirmed = slices.Clone(l.data[:at]), end, at
}

func (l *epochLog) Read(dst []byte, from int64, _ int) ([]byte, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if err := cmp.Or(l.readErr, l.f.readErr); err != nil {
		return nil, err
	}
	if err := l.overLocked(); err != nil {
		return nil, err
	}
	for p := l.data; len(p) > 0; {
		b, err := record.ParseUnverified(p)
		if err != nil {
			return nil, err
		}
		if b.NextOffset() > from {
			return append(dst, p...), nil
		}
		p = p[b.Size():]
	}
	return dst, nil
}

func (l *epochLog) Bounds() (start, end int64, err error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return 0, l.end, l.overLocked()
}
