package partition

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/log"
)

// Reconfigure replaces the settings of a live partition. Appends that were checked before go by the old ones. Topic, Partition and TopicID must
// be those of Open. On error nothing has changed. What of Config.Log can be changed live is up to log.Log.Reconfigure.
func (p *Partition) Reconfigure(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return p.wrap("reconfigure", err)
	}
	if cfg.Topic != p.tp.Topic || cfg.Partition != p.tp.Partition {
		return p.wrap("reconfigure", errors.New("settings of another partition"))
	}
	cfg.Log.Owner = (*owner)(p)
	if err := p.log.Reconfigure(cfg.Log); err != nil {
		return p.wrap("reconfigure", fmt.Errorf("log: %w", err))
	}
	p.rules.Store(newRules(cfg))
	p.expiry.Store(int64(cfg.ProducerIDExpiration))
	p.mu.Lock()
	p.state.expiry = cfg.ProducerIDExpiration.Milliseconds()
	p.syncOnAck.Store(cfg.Log.Sync == log.SyncOnAck)
	p.mu.Unlock()
	return nil
}
