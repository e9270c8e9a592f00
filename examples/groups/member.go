package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// A stage is the cluster of a scene, with its output.
type stage struct {
	cluster strata.Client
	out     io.Writer
	session time.Duration // the shortest session timeout of a member
	members []*member
}

// A member is a consumer on its own goroutine.
type member struct {
	name   string
	c      *consumer.Consumer
	link   *link
	values chan string // values of its records; dropped unless a scene reads them
	gap    gap
	stop   context.CancelFunc
	done   chan error
}

func (s *stage) join(name string, cfg consumer.Config) (*member, error) {
	return s.joinSlow(name, cfg, 0)
}

// joinSlow is join for a member that works on each record for a time.
func (s *stage) joinSlow(name string, cfg consumer.Config, work time.Duration) (*member, error) {
	// bounds the time until a member notices a rebalance
	cfg.ClientID, cfg.HeartbeatInterval, cfg.Group = name, 50*time.Millisecond, at.Name(cfg.Group)
	cfg.Topics = slices.Clone(cfg.Topics)
	for i := range cfg.Topics {
		cfg.Topics[i] = at.Name(cfg.Topics[i])
	}
	m := &member{name: name, link: &link{Backend: s.cluster}, values: make(chan string, 4096), done: make(chan error, 1)}
	var err error
	if m.c, err = consumer.New(m.link, cfg); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		var err error
		for r, recordErr := range m.c.Records(ctx) {
			err = errors.Join(err, recordErr)
			m.gap.record()
			select {
			case m.values <- string(r.Value):
			default: // no scene reads them
			}
			time.Sleep(work)
		}
		m.done <- errors.Join(err, m.c.Close())
	}()
	s.members = append(s.members, m)
	return m, nil
}

// leave closes the member, which leaves the group unless it is static, and returns when its
// goroutine has ended.
func (m *member) leave() error {
	m.stop()
	err := <-m.done
	m.done <- nil // for a second call
	return err
}

func (s *stage) leaveAll() (err error) {
	for _, m := range s.members {
		m.link.thaw()
		err = errors.Join(err, m.leave())
	}
	s.members = nil
	return err
}

// partitions is the number of partitions of the topics of each group.
var partitions = map[string]int{"shop": 6, "web": 4, "ice": 4}

// show waits until the group has n members with all partitions assigned, and prints the assignment.
// A partition that moves is held back until its owner has revoked it, so the group can be stable
// for a moment without it.
func (s *stage) show(ctx context.Context, id, event string, n int) (group.Info, error) {
	g, err := s.cluster.WaitGroup(ctx, at.Name(id), func(g group.Info) bool {
		assigned := 0
		for _, m := range g.Members {
			assigned += len(m.Assignment)
		}
		return group.StableWith(n)(g) && assigned == partitions[id]
	})
	if err != nil {
		return g, fmt.Errorf("%s: %w", event, err)
	}
	generation, err := s.generation(ctx, g)
	if err != nil {
		return g, fmt.Errorf("%s: %w", event, err)
	}
	fmt.Fprintf(s.out, "  %s: generation %d\n", event, generation)
	slices.SortFunc(g.Members, func(a, b group.MemberInfo) int { return cmp.Compare(a.ClientID, b.ClientID) })
	for _, m := range g.Members {
		fmt.Fprintf(s.out, "    %-5s %s\n", m.ClientID, list(m.Assignment))
	}
	return g, nil
}

// generation returns the generation of a stable group. Elsewhere only the members know it: no
// request about groups returns it.
func (s *stage) generation(ctx context.Context, g group.Info) (generation int32, err error) {
	if g.Generation >= 0 {
		return g.Generation, nil
	}
	if err := s.taken(ctx, g); err != nil {
		return 0, err
	}
	for _, m := range s.members {
		if of := m.c.Metadata(); of.Group == g.ID {
			generation = max(generation, of.Generation)
		}
	}
	return generation, nil
}

// taken waits until each member has the partitions that the group has assigned to it. A member that
// has not got them yet would join the next rebalance without naming them as its own.
func (s *stage) taken(ctx context.Context, g group.Info) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	latest := map[string]*member{} // a member that was restarted has an earlier one of its name
	for _, m := range s.members {
		latest[m.name] = m
	}
	for _, info := range g.Members {
		for len(latest[info.ClientID].c.Assignment()) != len(info.Assignment) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func list(tps []record.TopicPartition) string {
	if len(tps) == 0 {
		return "idle"
	}
	var names []string
	for _, tp := range tps {
		names = append(names, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
	}
	return strings.Join(names, " ")
}
