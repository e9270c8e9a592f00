package replication

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
)

// Healthy returns nil if all brokers run, each disk takes and returns data (see TryDisk), every
// partition has a leader that serves it, and no operation has met damage that is still there.
// Otherwise it returns an error for each broker that does not run or whose disk fails, one for the
// partitions without a leader, one for the damaged partitions, and the causes below them: errors.Is
// finds ErrBrokerDown, ENOSPC of a full disk, or partition.ErrCorrupt. It returns ErrClosed after
// Close, and for a disk that hangs the cause of ctx. It is safe for concurrent use, and cheap
// enough to be called every second.
func (c *Cluster) Healthy(ctx context.Context) error {
	topics, err := c.Topics(ctx)
	if err != nil {
		return err
	}
	brokers := c.Registered()
	tried := make(chan error, len(brokers))
	for _, id := range brokers {
		go func() {
			if err := c.TryDisk(ctx, id); err != nil {
				tried <- fmt.Errorf("broker %d: %w", id, err)
			} else {
				tried <- nil
			}
		}()
	}
	var errs []error
	for range brokers {
		errs = append(errs, <-tried)
	}
	return errors.Join(append(errs, c.unserved(topics))...)
}

// unserved returns an error for the partitions that are offline, and one for those with damaged
// records.
func (c *Cluster) unserved(topics []topic.Info) error {
	var offline, damaged faulty
	for _, t := range topics {
		for p := range t.Partitions {
			s := c.Status(t.Name, int32(p))
			switch {
			case s.Err != nil:
				offline.add(t.Name, p, s.Err)
			case s.Leader < 0:
				offline.add(t.Name, p, ErrNotLeader)
			case errors.Is(s.Impaired, partition.ErrCorrupt):
				damaged.add(t.Name, p, s.Impaired)
			}
		}
	}
	return errors.Join(offline.err("offline"), damaged.err("damaged"))
}

// faulty are partitions with the same fault.
type faulty struct {
	count int
	first error
}

func (f *faulty) add(topic string, p int, err error) {
	if f.count++; f.first == nil {
		f.first = fmt.Errorf("%s-%d: %w", topic, p, err)
	}
}

func (f *faulty) err(what string) error {
	if f.count == 0 {
		return nil
	}
	return fmt.Errorf("%d partitions are %s, the first: %w", f.count, what, f.first)
}
