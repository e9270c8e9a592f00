package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// DirectoryConfig describes a Directory. The zero DirectoryConfig is valid.
type DirectoryConfig struct {
	MaxOpenFiles int          // descriptors kept open. 0: 512
	MaxSyncs     int          // fsyncs at once, each on a thread of its own. 0: 16
	FS           vfs.FS       // nil: the operating system's
	TailBytes    int64        // memory for what was written last, for all logs together. 0: 8 MiB; negative: none
	JournalBytes int64        // of the file with which several busy logs share a sync, while it is needed. 0: 16 MiB; negative: none
	Logger       *slog.Logger // nil discards everything
	// Unentered leaves it to the caller to sync the entry of the directory, and of those above that
	// were made for it, before anything in it is relied on. false: OpenDirectory does.
	Unentered bool
}

// A Directory is what the logs below one directory share: the lock, the syncer, the descriptors.
// Safe for concurrent use. No log right below it can be opened beside it, whether the Directory has
// it open or not.
type Directory struct {
	path   string
	real   string // path with symbolic links resolved; "" where read-only logs have a Directory of their own
	fs     vfs.FS
	lock   io.Closer
	files  *segment.FileCache
	bootID string
	syncer syncer
	logger *slog.Logger
	calls  sync.Pool            // of *call
	spare  atomic.Pointer[call] // the one that was used last: quicker than calls
	tails  *tailPool
	clock  wallClock

	entries sharedSync // of the directory, for logs that are made in it

	solo bool // one log's own: Kafka knows no such thing

	mu      sync.Mutex      // guards the fields below
	logs    map[string]bool // real paths of the logs that are open
	closed  bool
	unclean bool // a log was not closed in order
	kafka   kafkaFiles

	replayed map[string]replayed // by the name of a log that was not opened since
}

const lockFile = ".lock"

// OpenDirectory locks dir, which is created if needed. It returns an error matching ErrLocked if
// another process, or this one, has it open. Without the lock, whatever the reason, it is refused.
// A dir of "" is fs.ErrInvalid.
func OpenDirectory(dir string, cfg DirectoryConfig) (*Directory, error) {
	if dir == "" { // it would be the working directory
		return nil, fmt.Errorf("log: open directory: no name: %w", fs.ErrInvalid)
	}
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxSyncs <= 0 {
		cfg.MaxSyncs = 16
	}
	if err := enterDirectory(dir, &cfg); err != nil {
		return nil, fmt.Errorf("log: open directory: %w", err)
	}
	real, err := cfg.FS.RealPath(dir)
	if err != nil {
		return nil, fmt.Errorf("log: open directory: %w", err)
	}
	lock, err := takeLock(cfg.FS, filepath.Join(dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf("log: open directory: %w", err)
	}
	replayed, err := replayJournal(cfg.FS, dir, cfg.Logger, cfg.MaxSyncs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log: open directory: %w", err), lock.Close())
	}
	kafka, err := takeDirectory(cfg.FS, dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log: open directory: %w", err), lock.Close())
	}
	d := &Directory{kafka: kafka, replayed: replayed, path: dir, real: real, logs: map[string]bool{}, fs: cfg.FS, lock: lock, files: segment.NewFileCache(cfg.MaxOpenFiles), bootID: cfg.FS.BootID(), logger: cfg.Logger}
	setDefault(&cfg.TailBytes, 8<<20)
	d.tails = newTailPool(cfg.TailBytes)
	d.clock.init()
	setDefault(&cfg.JournalBytes, 2*journalHalf)
	d.syncer.journal.init(d, max(cfg.JournalBytes/2, 0))
	d.syncer.limit, d.syncer.idle.L = cfg.MaxSyncs, &d.syncer.mu
	return d, nil
}

// enterDirectory makes dir, durably unless that is the caller's affair.
func enterDirectory(dir string, cfg *DirectoryConfig) error {
	if cfg.Unentered {
		return cfg.FS.MkdirAll(dir, 0o755)
	}
	return makeDir(cfg.FS, dir, lockFile)
}

// Close gives up the lock. All logs of the directory must be closed before; if not, it returns an
// error and does nothing. It is idempotent. If everything was closed in order it leaves Kafka's
// checkpoints and its marker of a clean shutdown, so that a Kafka broker can go on from here.
func (d *Directory) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if n := len(d.logs); n > 0 {
		defer d.mu.Unlock()
		return fmt.Errorf("log: close directory %s: %d logs are open", d.path, n)
	}
	d.closed = true
	d.mu.Unlock()
	d.syncer.journal.idle.Stop()
	d.syncer.journal.idle.Wait()
	d.syncer.stop()
	err := d.syncer.journal.close(!d.unclean)
	if err == nil && !d.solo && !d.unclean {
		if err = leaveDirectory(d.fs, d.path, &d.kafka); err != nil {
			err = fmt.Errorf("log: close directory %s: %w", d.path, err)
		}
	}
	return errors.Join(err, d.lock.Close())
}
