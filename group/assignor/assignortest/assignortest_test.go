package assignortest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/assignor/assignortest"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestOurAssignorsConform(t *testing.T) {
	for _, a := range []assignor.Assignor{assignor.Uniform(), assignor.Range(), assignor.RoundRobin(), assignor.Sticky(), assignor.CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) { assignortest.Run(t, a, 0) })
	}
}

// broken spoils the result of an assignor, to show that Run notices.
type broken struct {
	assignor.Assignor
	spoil func(map[string][]record.TopicPartition)
}

func (b broken) Assign(members []assignor.Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
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

func failureOf(a assignor.Assignor) (r *recorder) {
	r = &recorder{}
	defer func() { _ = recover() }()
	assignortest.Run(r, a, 0)
	return r
}

func TestBrokenAssignorsAreFound(t *testing.T) {
	for name, spoil := range map[string]func(map[string][]record.TopicPartition){
		"no member got": func(out map[string][]record.TopicPartition) {
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
		"unknown member": func(out map[string][]record.TopicPartition) {
			if out != nil {
				out["stranger"] = nil
			}
		},
	} {
		require.Contains(t, failureOf(broken{assignor.Range(), spoil}).failure, name)
	}
	require.Contains(t, failureOf(claimsCooperative{assignor.Range()}).failure, "holds it")
}

// claimsCooperative is an eager assignor whose Cooperative returns true.
type claimsCooperative struct{ assignor.Assignor }

func (claimsCooperative) Cooperative() bool { return true }
