package log

import "fmt"

// Reconfigure changes the settings of an open log. Dir, Owner, Beside and FS stay as they are; the
// sizes in Segment apply to new segments. It waits for the round of appends in progress, and for
// the disk if the sync policy changes. After an error nothing has changed.
//
// A new sync policy applies to every later append, and to the present records. Unless it is
// SyncNever, everything appended before is on stable storage when Reconfigure returns, and so is
// the recovery point. A shorter interval counts from the next append. If the sync policy does not
// change, nothing is synced or written; a broken log accepts that too.
func (l *Log) Reconfigure(cfg Config) error { return l.ReconfigureWith(cfg, nil) }

// ReconfigureWith is Reconfigure for an Owner that uses the settings too. applied is called when
// they are in effect, before any append under them and before another Reconfigure. It is called
// without locks, in the way of Owner.Written. Under SyncOnAck everything is durable then.
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

// changePolicy adapts the files to the sync policy of cfg before the policy takes effect. Nothing
// is appended meanwhile, so that the durable part at the end is the whole log.
func (w *writer) changePolicy(cfg *Config) error {
	l := w.log
	if w.provisional && cfg.Sync != SyncNever {
		l.intervalAlarm.Disarm()
		return w.settleProvisional(cfg)
	}
	leaves := l.cfg.Load().Sync == SyncOnAck
	// The records that were appended under the weaker policy. Under SyncNever the old promise still
	// holds for them: their timer stays. Data that is durable in the journal is written to the
	// files: it is not replayed behind a roll without a sync.
	if cfg.Sync != SyncNever || leaves {
		if err := l.syncNow(); err != nil {
			return err
		}
		l.intervalAlarm.Disarm() // it may be hours away, and there is nothing left for it to do
	}
	if !w.marked { // the state of the first append will record it
		return nil
	}
	// Recovery must not rely on the strict policy any more, or may from here on. If this write
	// fails, the next append writes the policy then in force.
	return w.writeStateAs(cfg, l.list(), false)
}
