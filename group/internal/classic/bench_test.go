package classic

import (
	"fmt"
	"testing"
	"time"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/group/protocol"
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
