package classic

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

func BenchmarkHeartbeat(b *testing.B) {
	for _, members := range []int{1, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			g, now := New("g", &Config{}), time.Now()
			g.Step(now, EventCreate{})
			g.Accept()
			v := &offsets.GroupValue{ProtocolType: "consumer", Generation: 1, Protocol: "range", Leader: "m0"}
			for i := range members {
				v.Members = append(v.Members, offsets.MemberValue{ID: fmt.Sprint("m", i), SessionTimeoutMs: 10_000})
			}
			g.Apply(offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: "g"}, Group: v})
			r := &protocol.HeartbeatRequest{Group: "g", MemberID: "m0", Generation: 1}
			b.ReportAllocs()
			for b.Loop() {
				eff := g.Step(now, EventHeartbeat{HeartbeatRequest: r})
				g.Accept()
				if eff.Replies[0].Err != nil {
					b.Fatal(eff.Replies[0].Err)
				}
			}
		})
	}
}

// committer returns a function that commits an offset of a group.
func committer(tb testing.TB) func() {
	g, now := New("g", &Config{Limits: Limits{OffsetMetadataMax: 4096}}), time.Now()
	r := &protocol.CommitRequest{Group: "g", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{{Topic: "t"}: {Offset: 1}}}
	ids := map[string][16]byte{"t": {1}}
	return func() {
		eff := g.Step(now, EventCommit{CommitRequest: r, TopicIDs: ids, To: 1})
		g.Accept()
		if len(eff.Records) != 1 || eff.Replies[0].Err != nil {
			tb.Fatal(eff)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	commit := committer(b)
	b.ReportAllocs()
	for b.Loop() {
		commit()
	}
}

func TestCommitAllocatesWhatItStoresAndAnswers(t *testing.T) {
	require.LessOrEqual(t, testing.AllocsPerRun(1000, committer(t)), 7.0)
}
