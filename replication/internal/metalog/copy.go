package metalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A Place describes where a broker's copy is.
type Place struct {
	FS     vfs.FS
	Root   string     // the broker's directory
	Log    log.Config // except the fields that are the same for all copies
	Origin Origin
	// Late means that the cluster is new: nothing of the copy is synced before Secure, and it has
	// no state on stable storage before Settle. Log.Beside must return when the identity of the
	// broker is on stable storage.
	Late bool
	// Blame makes the error of a directory that cannot be used: reason is ErrLocked, ErrNewerFormat
	// or ErrDamaged.
	Blame func(dir string, reason, cause error) error
}

// An Origin is the way in which a broker's directory became part of its cluster.
type Origin string

// Origins of directories; "" means that an earlier version created the directory.
const (
	Founder Origin = "founder" // when the cluster was created, with empty metadata
	Added   Origin = "added"   // later
)

// A Copy is a broker's copy of the metadata log. Its leader epochs are the controllers'.
type Copy struct {
	*log.Log
	place Place
	kept  int32 // the epoch in PromiseFile; -1 if there is none
}

// PromiseFile is the name of a file in a broker's directory. It has a controller epoch that began
// on the broker's copy and that the copy may not show any more. It is written before a truncation
// removes such an epoch, in which nothing was written, from the copy. The epoch must not begin a
// second time, since another controller may have written in it on other copies.
//
//	epoch=7
const PromiseFile = "strata.epoch"

// Dir returns the directory of the copy.
func (p *Place) Dir() string { return filepath.Join(p.Root, topic.MetadataTopic+"-0") }

// Open opens the copy, and creates it if there is none. Errors of the directory are made by Blame.
func (p Place) Open() (*Copy, error) { return p.OpenIn(p.Dir()) }

// OpenIn is Open of a copy in another directory.
func (p Place) OpenIn(dir string) (*Copy, error) {
	m := &Copy{place: p}
	var err error
	if m.kept, err = p.readPromise(); err != nil {
		return nil, err
	}
	cfg := p.config()
	if p.Late {
		cfg.Sync = log.SyncNever
	}
	if m.Log, err = log.Open(dir, cfg); err != nil {
		return nil, p.explain(dir, err)
	}
	return m, nil
}

// config returns the configuration that the log of a copy is opened with.
func (p *Place) config() log.Config {
	cfg := p.Log
	cfg.FS = p.FS
	cfg.Sync = log.SyncOnAck
	cfg.Cleanup = log.CleanupNone
	cfg.RetentionAge = log.Unlimited
	cfg.MaxBatchBytes = MaxBatchBytes
	return cfg
}

// beginEpoch records that a controller's epoch begins at the copy's end: durably, unless the copy
// is Late.
func (m *Copy) beginEpoch(epoch int32) error {
	if m.place.Late {
		return m.LeadInEpoch(epoch)
	}
	return m.SetLeaderEpoch(epoch)
}

// settle puts the content of a late copy on stable storage and makes it an ordinary copy.
func (m *Copy) settle() error {
	if !m.place.Late {
		return nil
	}
	m.place.Late = false
	return m.Reconfigure(m.place.config())
}

// explain converts an error of package log about a directory into an error made by Blame.
func (p *Place) explain(dir string, err error) error {
	if reason := ReasonOf(err); reason != nil {
		return p.Blame(dir, reason, err)
	}
	return fmt.Errorf("open %s: %w", dir, err)
}

// readPromise returns the epoch in PromiseFile, -1 if there is none.
func (p *Place) readPromise() (int32, error) {
	content, err := vfs.ReadFile(p.FS, filepath.Join(p.Root, PromiseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", PromiseFile, err)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(content)), "epoch=")
	epoch, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil || epoch < 0 {
		return 0, p.Blame(p.Root, ErrDamaged, fmt.Errorf("%s: %q", PromiseFile, content))
	}
	return int32(epoch), nil
}

// Promised returns the newest controller epoch that ever began on the copy, or -1 if none did.
func (m *Copy) Promised() int32 {
	latest, _ := m.Epochs().Latest()
	return max(latest, m.kept)
}

// state returns the last epoch and the end offset of the copy.
func (m *Copy) state(broker int32) controller.Copy {
	c := controller.Copy{Broker: broker, Epoch: -1, End: m.EndOffset()}
	if c.End > m.StartOffset() {
		c.Epoch = m.Epochs().At(c.End - 1)
	}
	return c
}

// cut truncates the copy to an offset. If that removes the newest epoch, the promise that this
// epoch does not begin again is durable before.
func (m *Copy) cut(to int64) error {
	if m.Epochs().At(to-1) != m.Promised() {
		if err := m.keepPromise(); err != nil {
			return err
		}
	}
	return m.TruncateTo(to)
}

// restart is cut for a copy that ends before the others begin: the copy is empty and continues at
// start.
func (m *Copy) restart(start int64) error {
	if err := m.keepPromise(); err != nil {
		return err
	}
	return m.TruncateFully(start)
}

// keepPromise makes the newest epoch that began on the copy durable in PromiseFile.
func (m *Copy) keepPromise() error {
	epoch := m.Promised()
	if epoch == m.kept {
		return nil
	}
	if err := vfs.WriteFile(m.place.FS, filepath.Join(m.place.Root, PromiseFile), fmt.Appendf(nil, "epoch=%d\n", epoch)); err != nil {
		return fmt.Errorf("write %s: %w", PromiseFile, err)
	}
	m.kept = epoch
	return nil
}

// A sourceError is an error of the leader's copy, which could not be read.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// Follow makes the copy equal to the leader's: it truncates the part where they differ, and appends
// the missing part unchanged.
func (m *Copy) Follow(leader *Copy) error {
	// Also at the end: an epoch that began there, without a batch, is not the leader's.
	if err := m.cut(controller.Part(leader.Epochs(), m.Epochs(), m.state(0))); err != nil {
		return err
	}
	if start := leader.StartOffset(); m.EndOffset() < start {
		if err := m.restart(start); err != nil {
			return err
		}
	}
	var buf []byte
	for next := m.EndOffset(); next < leader.EndOffset(); next = m.EndOffset() {
		var err error
		if buf, err = leader.Read(buf[:0], next, 1<<20); err != nil {
			return &sourceError{err}
		}
		for rest := buf; len(rest) > 0; {
			_, n, err := record.Parse(rest)
			if err != nil {
				return err
			}
			if err := appendWhole(m.Log, &log.Append{Batch: rest[:n:n], LeaderEpoch: -1, KeepOffsets: true}); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if m.EndOffset() == next {
			return fmt.Errorf("%w: nothing at offset %d", log.ErrCorrupt, next)
		}
	}
	return m.DeleteRecords(leader.StartOffset())
}

// appendWhole appends one batch and waits for the result.
func appendWhole(l *log.Log, a *log.Append) error {
	done := make(chan struct{})
	a.Done = func(*log.Append) { close(done) }
	l.Submit(a)
	<-done
	return a.Err
}
