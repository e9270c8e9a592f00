package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// pauses measures the longest time in which a steady member gets no record, while a third member
// joins and restarts. The second member is slow, 200 ms per record. In an eager rebalance all
// members stop and wait for it; in a cooperative one they continue. A static member returns under
// its instance id without a rebalance.
func (s *stage) pauses(ctx context.Context) (err error) {
	fmt.Fprintln(s.out, "\nLongest gap in the records of a steady member (6 partitions, a record every ms; another member needs 200 ms per record):")
	ctx, cancel := context.WithCancel(ctx)
	var traffic sync.WaitGroup
	var sendErr error
	traffic.Go(func() { sendErr = s.tick(ctx) })
	defer func() {
		cancel()
		traffic.Wait()
		err = errors.Join(err, sendErr)
	}()

	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  \tanother joins\tit restarts\tgenerations for the restart")
	for _, way := range []struct {
		name string
		cfg  consumer.Config
		id   string // instance id of the member that joins and restarts
	}{
		{"eager", consumer.Config{Assignors: []assignor.Assignor{assignor.Sticky()}}, ""},
		{"cooperative", consumer.Config{}, ""},
		{"static", consumer.Config{SessionTimeout: 6 * time.Second}, "guest-1"},
	} {
		cfg := way.cfg
		cfg.Group, cfg.Topics = "pause-"+way.name, []string{"ticks"}
		steady, err := s.join("steady", cfg)
		if err != nil {
			return err
		}
		slow, err := s.joinSlow("slow", cfg, 200*time.Millisecond)
		if err != nil {
			return err
		}
		if _, err := s.settled(ctx, cfg.Group, 2, steady, slow); err != nil {
			return err
		}
		cfg.InstanceID = way.id

		steady.gap.reset()
		guest, err := s.join("guest", cfg)
		if err != nil {
			return err
		}
		before, err := s.settled(ctx, cfg.Group, 3, steady, guest, slow)
		if err != nil {
			return err
		}
		joins := steady.gap.longest()

		steady.gap.reset()
		if err := guest.leave(); err != nil {
			return err
		}
		if guest, err = s.join("guest", cfg); err != nil {
			return err
		}
		after, err := s.settled(ctx, cfg.Group, 3, steady, guest)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s\t%d ms\t%d ms\t%d\n", way.name, joins.Milliseconds(), steady.gap.longest().Milliseconds(), after-before)
		if err := s.leaveAll(); err != nil {
			return err
		}
	}
	return w.Flush()
}

// settled returns when n members own all six partitions (a cooperative rebalance takes two
// generations, one to give up, one to take) and each of ms has got a new record. The last of
// ms has just begun to work on its record.
func (s *stage) settled(ctx context.Context, id string, n int, ms ...*member) (generation int32, err error) {
	for range 2 { // the second look is after the records: a member with a record is in the group
		g, err := s.cluster.WaitGroup(ctx, at.Name(id), func(g group.Info) bool {
			owned := 0
			for _, m := range g.Members {
				owned += len(m.Assignment)
			}
			return group.StableWith(n)(g) && owned == 6
		})
		if err != nil {
			return 0, err
		}
		for _, m := range ms {
			for len(m.values) > 0 {
				<-m.values
			}
			select {
			case <-m.values:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if generation, err = s.generation(ctx, g); err != nil {
			return 0, err
		}
	}
	return generation, nil
}

// tick sends a record every millisecond, to the partitions in turn, until ctx is done.
func (s *stage) tick(ctx context.Context) error {
	p, err := producer.New(s.cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for i := int32(0); ; i++ {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		if _, err := p.Send(ctx, record.String(at.Name("ticks"), "", "tick").To(i%6)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
