package log

import "fmt"

// Reconfigure changes the settings of an open log. Dir, Owner and FS stay as they are; the sizes in Segment hold for segments that are begun
// from then on. It waits for the round under way.
func (l *Log) Reconfigure(cfg Config) error {
	old := l.cfg.Load()
	cfg.Dir, cfg.Owner, cfg.FS = old.Dir, old.Owner, old.FS
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	err = l.exclusively(func(w *writer) error {
		if cfg.Sync != old.Sync && cfg.Sync != SyncNever { // what was appended under the weaker policy
			if err := l.syncNow(); err != nil {
				return err
			}
		}
		if cfg.Sync != SyncOnAck && old.Sync == SyncOnAck { // recovery must not trust in the strict one any more
			w.marked = false
		}
		l.cfg.Store(&cfg)
		w.drawJitter()
		return nil
	})
	if err != nil {
		return fmt.Errorf("reconfigure: %w", err)
	}
	l.wake()
	return nil
}
