package group

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/record"
)

// watchRest is the ratio of the watcher's wait between two reads of all topics to the time of a
// read. While topics are created one by one, reads thus take a tenth of a processor. Without the
// wait their total time would grow with the square of the number of topics.
const watchRest = 9

// watch follows the metadata. It loads and unloads the partitions of the offsets topic by their
// leaders, and deletes the offsets of deleted topics. It waits for no partition. Topics that it has
// not read yet are looked up by name (lookup), which records them, so that their removal is noticed
// even between two reads.
func (c *Coordinator) watch() {
	if _, err := c.runtime.Partitions(c.ctx, false); err != nil {
		// the next request tries again, and returns the error
		c.cfg.Logger.Debug("offsets topic was not found", "err", err)
	}
	for c.ctx.Err() == nil {
		began := time.Now()
		now, err := c.store.Topics(c.ctx)
		if err == nil {
			ended := time.Now()
			c.topics.Store(&now)
			c.runtime.Follow()
			for _, ev := range c.deleted(now) {
				for _, s := range c.runtime.Known() {
					s.StepAll(ev)
				}
			}
			if _, err = c.store.WaitTopics(c.ctx, now.Version); err == nil {
				c.runtime.Follow() // leaders may have changed, which does not wait
				c.rest(time.Until(ended.Add(watchRest * ended.Sub(began))))
			}
		}
		if err != nil {
			c.rest(time.Second) // the store is closing, or fails
		}
	}
}

// rest waits, unless the coordinator is closing.
func (c *Coordinator) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// A seenTopic is a topic that existed at some version of the topics.
type seenTopic struct {
	id      [16]byte
	version int64
}

// noteSeen adds the topics in t to seen.
func (c *Coordinator) noteSeen(t Topics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, info := range t.Topics {
		if c.seen[name].version <= t.Version {
			c.seen[name] = seenTopic{info.ID, t.Version}
		}
	}
}

// deleted compares the topics seen so far with all present ones. Only topics that were seen count:
// at a start there may be offsets of topics that are yet to be imported.
func (c *Coordinator) deleted(now Topics) (events []classic.Event) {
	c.mu.Lock()
	for name, s := range c.seen {
		if still, ok := now.Topics[name]; s.version < now.Version && (!ok || still.ID != s.id) {
			events = append(events, classic.EventTopicDeleted{Topic: name, ID: s.id})
			delete(c.seen, name)
		}
	}
	c.mu.Unlock()
	c.noteSeen(now)
	return events
}

// versioned is a Store in the same process, whose version of the topics costs no more than reading
// a number.
type versioned interface{ MetadataVersion() int64 }

// current reports whether nothing has changed since the given version of the topics. A Store
// without versions counts as unchanged: the watcher sees changes a little later.
func (c *Coordinator) current(version int64) bool {
	v, ok := c.store.(versioned)
	return !ok || v.MetadataVersion() == version
}

// lookup returns the known topics of partitions, without topics that do not exist.
func (c *Coordinator) lookup(ctx context.Context, partitions func(yield func(record.TopicPartition) bool)) (map[string]TopicInfo, error) {
	var seen map[string]TopicInfo
	if t := c.topics.Load(); t != nil && c.current(t.Version) {
		seen = t.Topics
	}
	var missing []string
	for tp := range partitions {
		if tp.Partition >= seen[tp.Topic].Partitions {
			missing = append(missing, tp.Topic)
		}
	}
	if len(missing) == 0 {
		return seen, nil
	}
	t, err := c.store.Topics(ctx, missing...) // perhaps newer than the watcher's
	if err != nil {
		return nil, err
	}
	c.noteSeen(t)
	seen = maps.Clone(seen)
	if seen == nil {
		return t.Topics, nil
	}
	maps.Copy(seen, t.Topics)
	return seen, nil
}

// lookupNow is lookup without the watcher's topics: a topic may have been deleted and created again
// since.
func (c *Coordinator) lookupNow(ctx context.Context, partitions func(yield func(record.TopicPartition) bool)) (map[string]TopicInfo, error) {
	var names []string
	for tp := range partitions {
		if !slices.Contains(names, tp.Topic) {
			names = append(names, tp.Topic)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	t, err := c.store.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	c.noteSeen(t)
	return t.Topics, nil
}

// known reports whether tp exists.
func known(topics map[string]TopicInfo, tp record.TopicPartition) bool {
	return tp.Partition >= 0 && tp.Partition < topics[tp.Topic].Partitions
}

func topicIDs(topics map[string]TopicInfo, tps func(yield func(record.TopicPartition) bool)) map[string][16]byte {
	ids := make(map[string][16]byte)
	for tp := range tps {
		ids[tp.Topic] = topics[tp.Topic].ID
	}
	return ids
}
