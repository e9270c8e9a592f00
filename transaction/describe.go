package transaction

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// A Description describes a transactional id. The caller owns it.
type Description struct {
	ID         string
	State      State
	Producer   Producer
	Timeout    time.Duration
	Started    time.Time               // zero: no transaction since the producer was initialised
	Partitions []record.TopicPartition // partitions of the transaction, by topic and number
}

func describe(id string, m *lifecycle.Machine) Description {
	v := m.Value()
	d := Description{ID: id, State: m.State(), Producer: Producer{ID: v.ProducerID, Epoch: v.Epoch},
		Timeout: time.Duration(v.TimeoutMs) * time.Millisecond, Partitions: slices.Clone(v.Partitions)}
	if v.StartMs >= 0 {
		d.Started = time.UnixMilli(v.StartMs)
	}
	return d
}

// Describe returns the committed state of an id. It returns ErrNotFound if there is none,
// ErrInvalidID, or the errors of a coordinator that moves. Kafka: DescribeTransactions.
func (c *Coordinator) Describe(ctx context.Context, id string) (Description, error) {
	if err := checkID(id); err != nil {
		return Description{}, err
	}
	v, err := c.route.Ask(ctx, coordinator.Question{ID: id, Absent: ErrNotFound}, func(r *request) {
		if m, ok := r.Get(id); ok {
			r.AnswerCommitted(id, describe(id, m))
		} else {
			r.Answer(nil, ErrNotFound)
		}
	})
	d, _ := v.(Description)
	return d, err
}

// List describes all ids, sorted by id. After an error it still returns those of reachable
// coordinators. Kafka: ListTransactions.
func (c *Coordinator) List(ctx context.Context) ([]Description, error) {
	var all []Description
	err := c.route.Each(ctx, func(s *shard) error {
		return s.Each(ctx, func(id string, m *lifecycle.Machine) { all = append(all, describe(id, m)) })
	})
	slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}
