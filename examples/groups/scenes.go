package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// share: two topics of three partitions, two members with three partitions each.
func (s *stage) share(ctx context.Context) error {
	fmt.Fprintln(s.out, "Two topics of 3 partitions, two members.")
	for i, name := range []string{"ann", "bob"} {
		if _, err := s.join(name, consumer.Config{Group: "shop", Topics: []string{"orders", "refunds"}}); err != nil {
			return err
		}
		if _, err := s.show(ctx, "shop", name+" joins", i+1); err != nil {
			return err
		}
	}
	return nil
}

// idle: more members than partitions.
func (s *stage) idle(ctx context.Context) error {
	fmt.Fprintln(s.out, "\nFive members on 4 partitions: one is idle, until another member leaves.")
	ms := map[string]*member{}
	for _, name := range []string{"ann", "bob", "cleo", "dan", "eve"} {
		m, err := s.join(name, consumer.Config{Group: "web", Topics: []string{"clicks"}})
		if err != nil {
			return err
		}
		ms[name] = m
	}
	g, err := s.show(ctx, "web", "all are there", 5)
	if err != nil {
		return err
	}
	if err := s.taken(ctx, g); err != nil {
		return err
	}
	for _, owner := range g.Members {
		if len(owner.Assignment) > 0 {
			if err := ms[owner.ClientID].leave(); err != nil {
				return err
			}
			after, err := s.show(ctx, "web", owner.ClientID+" leaves", 4)
			if err == nil {
				fmt.Fprintf(s.out, "  %d of the 3 remaining members keep their partition\n", keepers(g, after))
			}
			return err
		}
	}
	return errors.New("no member has a partition")
}

// keepers counts the members that have the same partitions as before.
func keepers(before, after group.Info) (n int) {
	for _, b := range before.Members {
		for _, a := range after.Members {
			if a.ID == b.ID && len(b.Assignment) > 0 && slices.Equal(a.Assignment, b.Assignment) {
				n++
			}
		}
	}
	return n
}

// freeze: the process of a member stands still, so that its heartbeats stop.
func (s *stage) freeze(ctx context.Context) error {
	fmt.Fprintf(s.out, "\nA member freezes: its heartbeats stop. After its session timeout of %d ms the other one gets all partitions.\n", s.session.Milliseconds())
	frozen, err := s.join("ann", consumer.Config{Group: "ice", Topics: []string{"clicks"}, SessionTimeout: s.session})
	if err != nil {
		return err
	}
	if _, err := s.join("bob", consumer.Config{Group: "ice", Topics: []string{"clicks"}}); err != nil {
		return err
	}
	if _, err := s.show(ctx, "ice", "both are there", 2); err != nil {
		return err
	}
	start := time.Now()
	frozen.link.freeze()
	if _, err := s.show(ctx, "ice", "ann is frozen", 1); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "  that took %d ms\n", time.Since(start).Milliseconds())
	frozen.link.thaw()
	_, err = s.show(ctx, "ice", "ann thaws, gets an error as a former member, and joins again", 2)
	return err
}

// twoGroups: groups are independent, each gets every record.
func (s *stage) twoGroups(ctx context.Context) error {
	const total = 1000
	fmt.Fprintf(s.out, "\nTwo groups on one topic, %d records.\n", total)
	p, err := producer.New(s.cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	var rs []record.Record
	for i := range total {
		rs = append(rs, record.String(at.Name("orders"), fmt.Sprint("customer-", i%100), fmt.Sprint(i)))
	}
	if _, err := p.Send(ctx, rs...); err != nil {
		return err
	}
	for _, g := range []string{"billing", "shipping"} {
		var ms []*member
		for _, name := range []string{"ann", "bob"} {
			m, err := s.join(name, consumer.Config{Group: g, Topics: []string{"orders"}})
			if err != nil {
				return err
			}
			ms = append(ms, m)
		}
		seen := map[string]bool{}
		for len(seen) < total {
			select {
			case v := <-ms[0].values:
				seen[v] = true
			case v := <-ms[1].values:
				seen[v] = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if _, err := s.cluster.WaitGroup(ctx, at.Name(g), group.StableWith(2)); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  %s: its two members together saw %d different records\n", g, len(seen))
	}
	return nil
}
