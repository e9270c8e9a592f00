package log

import "fmt"

// Reconfigure changes the settings of an open log. Dir, Owner, Beside and FS stay as they are; the
// sizes in Segment hold for segments that are begun from then on. It waits for the round under way,
// and for the disk if the sync policy changes. On an error nothing has changed.
//
// A new sync policy holds for every append that is written afterwards, and for what is there:
// unless the new one is SyncNever, everything appended before is on stable storage when Reconfigure
// returns, and a shorter interval counts from the next append. The recovery point is on stable
// storage too. With the policy that the log has nothing is synced or written; that a broken log
// takes, too.
func (l *Log) Reconfigure(cfg Config) error { return l.ReconfigureWith(cfg, nil) }

// ReconfigureWith is Reconfigure for an Owner that goes by the settings too: applied is called when
// they hold, before anything is written under them and before another Reconfigure, without locks
// but as Owner.Written is. Under SyncOnAck everything is durable then.
func (l *Log) ReconfigureWith(cfg Config, applied func()) error {
	err := l.exclusively(func(w *writer) error {
		old := l.cfg.Load()
		cfg.Dir, cfg.Owner, cfg.Beside, cfg.FS = old.Dir, old.Owner, old.Beside, old.FS
		cfg, err := cfg.withDefaults()
		if err != nil {
			return err
		}
		if cfg.Sync != old.Sync {
			if err := w.changePolicy(&cfg); err != nil {
				return err
			}
		}
		l.cfg.Store(&cfg)
		w.drawJitter()
		if applied != nil {
			applied()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reconfigure: %w", err)
	}
	l.wake()
	return nil
}

// changePolicy makes the files fit the sync policy of cfg before it holds. Nothing is written
// meanwhile, so that what is durable at the end is all there is.
func (w *writer) changePolicy(cfg *Config) error {
	l := w.log
	if w.provisional && cfg.Sync != SyncNever {
		l.intervalAlarm.Disarm()
		return w.settleProvisional(cfg)
	}
	leaves := l.cfg.Load().Sync == SyncOnAck
	// What was appended under the weaker policy. Under SyncNever the old promise still stands for
	// that: its timer stays. What is durable in the journal goes into the files: it is not replayed
	// behind a roll without a sync.
	if cfg.Sync != SyncNever || leaves {
		if err := l.syncNow(); err != nil {
			return err
		}
		l.intervalAlarm.Disarm() // it may be hours away, and there is nothing left for it to do
	}
	if !w.marked { // the state of the first append will say it
		return nil
	}
	// Recovery must not trust in the strict policy any more, or may from here on. If this fails,
	// the next append writes what holds then.
	return w.writeStateAs(cfg, l.list(), false)
}
