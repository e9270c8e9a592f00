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

	"github.com/stratalog/strata/internal/latency"
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// DirectoryConfig describes a Directory. The zero DirectoryConfig is valid.
type DirectoryConfig struct {
	MaxOpenFiles int          // file descriptors kept open. 0 means 512
	MaxSyncs     int          // concurrent fsyncs, each on its own thread. 0 means 16
	FS           vfs.FS       // nil means the operating system's
	TailBytes    int64        // memory for the newest bytes of all logs together. 0 means 8 MiB, negative none
	JournalBytes int64        // size of the file with which busy logs share a sync, while it is needed. 0 means 16 MiB, negative none
	Logger       *slog.Logger // nil discards everything
	// Unentered leaves the sync of the directory's entry to the caller, and of the entries of
	// parent directories that were created. The caller must sync them before it relies on the
	// directory's contents. With false, OpenDirectory syncs them.
	Unentered bool
	// Void has names of files in the directory that describe its logs. They are removed, durably, if a
	// Kafka broker has used the directory since the last Close (Taken).
	Void []string
}

// A Directory has the resources that the logs in one directory share: the lock, the syncer and the
// file descriptors. It is safe for concurrent use. A log in the directory can only be opened
// through the Directory, even if the Directory has not opened that log.
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
	spare  atomic.Pointer[call] // the call used last: quicker than calls
	tails  *tailPool
	clock  wallClock

	syncTimes latency.Histogram // see SyncTimes

	entries sharedSync // of the directory, for logs that are made in it

	solo bool // one log's own: Kafka knows no such thing

	mu      sync.Mutex      // guards the fields below
	logs    map[string]bool // real paths of the logs that are open
	closed  bool
	unclean bool // a log was not closed in order
	kafka   kafkaFiles
	seen    map[string]bool // names of the logs that were closed since OpenDirectory

	replayed map[string]replayed // by the name of a log that was not opened since
}

const lockFile = ".lock"

// OpenDirectory locks dir and creates it if needed. It returns an error matching ErrLocked if this
// process or another has it open, and another error if it cannot take the lock for any other
// reason. For a dir of "" it returns fs.ErrInvalid.
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
	kafka, err := takeDirectory(cfg.FS, dir, cfg.Void)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log: open directory: %w", err), lock.Close())
	}
	d := &Directory{kafka: kafka, replayed: replayed, path: dir, real: real, logs: map[string]bool{}, seen: map[string]bool{}, fs: cfg.FS, lock: lock, files: segment.NewFileCache(cfg.MaxOpenFiles), bootID: cfg.FS.BootID(), logger: cfg.Logger}
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
		return cfg.FS.MkdirAll(dir, 0o700)
	}
	return makeDir(cfg.FS, dir, lockFile)
}

// Close releases the lock. All logs of the directory must be closed before; otherwise Close returns
// an error and does nothing. It is idempotent. If every log was closed cleanly, Close writes
// Kafka's checkpoints and Kafka's marker of a clean shutdown, so that a Kafka broker can continue
// with the directory. After a kill, this requires that each log of the directory was opened and
// closed since.
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
	if err == nil && !d.solo {
		var vouches bool
		if vouches, err = d.vouches(); vouches && err == nil {
			err = leaveDirectory(d.fs, d.path, &d.kafka)
		}
		if err != nil {
			err = fmt.Errorf("log: close directory %s: %w", d.path, err)
		}
	}
	return errors.Join(err, d.lock.Close())
}
