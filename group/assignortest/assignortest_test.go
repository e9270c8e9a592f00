package assignortest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignortest"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestOurAssignorsConform(t *testing.T) {
	for _, a := range []group.Assignor{group.Range(), group.RoundRobin(), group.Sticky(), group.CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) { assignortest.Run(t, a, 0) })
	}
}

// broken spoils the result of an assignor, to show that Run notices.
type broken struct {
	group.Assignor
	spoil func(map[string][]record.TopicPartition)
}

func (b broken) Assign(members []group.Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	out, err := b.Assignor.Assign(members, partitions)
	b.spoil(out)
	return out, err
}

type recorder struct{ failure string }

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Fatalf(f string, args ...any) {
	r.failure = fmt.Sprintf(f, args...)
	panic(r)
}

func failureOf(a group.Assignor) (r *recorder) {
	r = &recorder{}
	defer func() { _ = recover() }()
	assignortest.Run(r, a, 0)
	return r
}

func TestBrokenAssignorsAreFound(t *testing.T) {
	for name, spoil := range map[string]func(map[string][]record.TopicPartition){
		"nobody got": func(out map[string][]record.TopicPartition) {
			for id := range out {
				out[id] = nil
			}
		},
		"does not exist": func(out map[string][]record.TopicPartition) {
			for id := range out {
				out[id] = append(out[id], record.TopicPartition{Topic: "topic-0", Partition: 99})
			}
		},
		"was given to": func(out map[string][]record.TopicPartition) {
			for id := range out {
				out[id] = append(out[id], out[id]...)
			}
		},
		"is none": func(out map[string][]record.TopicPartition) {
			if out != nil {
				out["stranger"] = nil
			}
		},
	} {
		require.Contains(t, failureOf(broken{group.Range(), spoil}).failure, name)
	}
	require.Contains(t, failureOf(claimsCooperative{group.Range()}).failure, "holds it")
}

// claimsCooperative is an eager assignor that says it were cooperative.
type claimsCooperative struct{ group.Assignor }

func (claimsCooperative) Cooperative() bool { return true }
