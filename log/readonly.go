package log

import (
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// OpenReadOnly opens the log in dir as it is, also while another process writes to it. It takes no
// lock and gets a file system that refuses every change (vfs.ReadOnly): nothing in dir is created,
// removed, renamed or written, by no call and not by Close. Every method that would change the log
// returns ErrReadOnly. It sees what was there when it was opened.
//
// cfg.Dir says where the log lies and nothing more: no lock, descriptor or syncer is shared with it.
func OpenReadOnly(dir string, cfg Config) (*Log, error) {
	if cfg.FS == nil && cfg.Dir != nil {
		cfg.FS = cfg.Dir.fs
	}
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	cfg.FS = vfs.ReadOnly(cfg.FS)
	cfg.Dir = &Directory{path: dir, fs: cfg.FS, files: segment.NewFileCache(0), bootID: cfg.FS.BootID()}
	return open(dir, cfg, true)
}
