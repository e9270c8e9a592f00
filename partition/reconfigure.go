package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/log"
)

// Reconfigure replaces the settings of a live partition. Appends that were checked before go by the
// old ones. Topic, Partition and TopicID must be those of Open. On error nothing has changed. What
// of Config.Log can be changed live is up to log.Log.Reconfigure. Of two at once one comes after
// the other, with all its settings. It blocks for the disk.
func (p *Partition) Reconfigure(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return p.wrap("reconfigure", err)
	}
	if cfg.Topic != p.tp.Topic || cfg.Partition != p.tp.Partition {
		return p.wrap("reconfigure", errors.New("settings of another partition"))
	}
	cfg.Log.Owner = (*owner)(p)
	if err := p.log.ReconfigureWith(cfg.Log, func() { p.apply(&cfg) }); err != nil {
		return p.wrap("reconfigure", fmt.Errorf("log: %w", err))
	}
	return nil
}

// apply takes settings over. The log calls it between two rounds of appends: a round that was
// written under one sync policy is completed under it, so the high watermark never goes by another
// policy than the log. What waits for the high watermark does so for the last time under the old
// one: without SyncOnAck it moves when something is written, which may never happen again.
func (p *Partition) apply(cfg *Config) {
	p.rules.Store(newRules(*cfg))
	p.expiry.Store(int64(cfg.ProducerIDExpiration))
	p.mu.Lock()
	p.state.expiry = cfg.ProducerIDExpiration.Milliseconds()
	p.syncOnAck.Store(cfg.Log.Sync == log.SyncOnAck)
	var d due
	var w want
	if p.progress != nil {
		p.progress.Moved(p.position())
		p.progress.Configure(p.progressRules(), time.Since(p.opened))
		d = p.progressedLocked()
		w = p.proveLocked()
	}
	p.mu.Unlock()
	d.run()
	p.publish()
	w.run()
}

// safeEnd returns how far the records of this replica are as safe as the sync policy makes them.
func (p *Partition) safeEnd() int64 {
	if p.syncOnAck.Load() {
		return p.log.DurableOffset()
	}
	return p.log.EndOffset()
}
