package replication

import (
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// rules returns the settings of a topic that elections depend on: an image.Policy. A setting may
// have another value on each broker, and any of them may lead: the weakest promise counts.
func (c *Cluster) rules(img *image.Image, config map[string]string) image.Rules {
	s := parseOrDefaults(config, c.defaultsOf(img))
	r := rulesOf(s)
	for id := range img.Members {
		if img.BrokerConfigs[image.BrokerResource(id)] != nil {
			other := rulesOf(parseOrDefaults(config, c.defaultsWith(img.BrokerConfigs, id)))
			r.MinInSync, r.SyncOnAck = min(r.MinInSync, other.MinInSync), r.SyncOnAck && other.SyncOnAck
		}
	}
	return r
}

func rulesOf(s topic.Settings) image.Rules {
	return image.Rules{
		MinInSync: s.MinInSyncReplicas(maxBrokers), SyncOnAck: s.SyncPolicy() == log.SyncOnAck, Unclean: s.UncleanLeaderElection(),
	}
}

// parseOrDefaults returns the settings of a topic, without its own if they are not valid: a later
// version has written them.
func parseOrDefaults(config, defaults map[string]string) topic.Settings {
	s, err := topic.Parse(config, defaults)
	if err != nil {
		s, _ = topic.Parse(nil, defaults)
	}
	return s
}
