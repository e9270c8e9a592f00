package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/log"
)

// Reconfigure replaces the settings of a partition in use. Appends that were validated before use
// the old settings. Topic, Partition and TopicID must be those of Open. After an error nothing has
// changed. log.Log.Reconfigure determines which fields of Config.Log can be changed. Concurrent
// calls are applied one after the other, each with all its settings. It blocks for the disk.
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

// apply applies settings. The log calls it between two rounds of appends. A round that was written
// under one sync policy is completed under it, so the high watermark never follows another policy
// than the log. Waits for the high watermark are checked for the last time under the old policy:
// without SyncOnAck it moves at a write, which may never happen again.
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
