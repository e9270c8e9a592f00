package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/recovery"
)

// carryOut carries out the steps except cuts, which follow after the scans. A step that was done
// before can be done again.
func (o *opening) carryOut(steps []recovery.Step) error {
	l, fsys := o.log, o.cfg.FS
	for _, s := range steps {
		name := filepath.Join(l.path, s.Name)
		var err error
		switch s.Kind {
		case recovery.Store:
			l.token.writer.incarnation = s.State.Incarnation
			if err = fsys.SyncDir(l.path); err == nil { // it must not be durable before the names that it names
				err = storeState(fsys, l.path, s.State)
			}
		case recovery.Sync:
			err = fsys.SyncDir(l.path)
		case recovery.Remove:
			if err = fsys.Remove(name); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		case recovery.Install, recovery.SetAside:
			err = fsys.Rename(name, filepath.Join(l.path, s.To))
		case recovery.Begin:
			err = l.forgetBesideSegments(o.cfg)
		}
		if err != nil {
			return fmt.Errorf("recovery: %v: %w", s, err)
		}
	}
	return nil
}
