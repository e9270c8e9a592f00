package inflight

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testConfig = Config{LockDuration: 30 * time.Second, MaxDeliveryCount: 5, MaxInFlight: 2000}

// Checklist row S2: members that die of a record use up only that record's deliveries, not those
// of its neighbours.
func TestARecordThatNoMemberSurvivesTakesNoNeighbourToTheLimit(t *testing.T) {
	const poison = 3
	cfg := testConfig
	p, now := New(&cfg, Snapshot{}), time.Unix(0, 0)
	f := Fetched{Batches: []Offsets{{First: 0, Last: 7}, {First: 8, Last: 15}}}
	accepted := map[int64]bool{}
	for round := 0; p.Start() < 16; round++ {
		require.Less(t, round, 100)
		from, ok := p.Next()
		if !ok || from >= 16 { // every record is acquired
			now = p.Deadline()
			p.Tick(now)
			continue
		}
		f.From = from
		got := p.Acquire(now, fmt.Sprint("member-", round), f, Limit{Records: 100})
		dies := false
		for _, d := range got {
			dies = dies || d.First <= poison && poison <= d.Last
		}
		for _, d := range got {
			if dies {
				break
			}
			require.NoError(t, p.Acknowledge(now, fmt.Sprint("member-", round), []Ack{{First: d.First, Last: d.Last, Types: []AckType{Accept}}}))
			for o := d.First; o <= d.Last; o++ {
				accepted[o] = true
			}
		}
	}
	require.Len(t, accepted, 15)
	require.False(t, accepted[poison])
}

// Checklist row S3: a range that is done in order is one number, in memory and in storage.
func TestStateOfWhatIsDoneInOrderIsOneOffset(t *testing.T) {
	cfg := testConfig
	p, now := New(&cfg, Snapshot{}), time.Unix(0, 0)
	for o := int64(0); o < 10_000; o += 100 {
		got := p.Acquire(now, "a", Fetched{From: o, Batches: []Offsets{{First: o, Last: o + 99}}}, Limit{Records: 500})
		require.Equal(t, []Delivery{{First: o, Last: o + 99, Count: 1}}, got)
		for i := o; i < o+100; i++ {
			require.NoError(t, p.Acknowledge(now, "a", []Ack{{First: i, Last: i, Types: []AckType{Accept}}}))
			require.LessOrEqual(t, len(p.All()), 1)
		}
		d, ok := p.Delta()
		require.True(t, ok)
		require.Equal(t, Delta{Start: o + 100}, d)
	}
}

// BenchmarkAcknowledge acknowledges one record at a time, by 64 members in turn, each of which has
// 30 records.
func BenchmarkAcknowledge(b *testing.B) {
	cfg := testConfig
	p, now := New(&cfg, Snapshot{}), time.Unix(0, 0)
	members := make([]string, 64)
	left := make([]Delivery, len(members))
	for i := range members {
		members[i] = fmt.Sprint("member-", i)
	}
	types := []AckType{Accept}
	acks := make([]Ack, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d := &left[i%len(members)]
		if d.First > d.Last || d.Count == 0 {
			from, ok := p.Next()
			if !ok {
				b.Fatal("nothing to acquire")
			}
			*d = p.Acquire(now, members[i%len(members)], Fetched{From: from, Batches: []Offsets{{First: from, Last: from + 29}}}, Limit{Records: 30})[0]
			p.Delta()
		}
		acks[0] = Ack{First: d.First, Last: d.First, Types: types}
		if err := p.Acknowledge(now, members[i%len(members)], acks); err != nil {
			b.Fatal(err)
		}
		d.First++
	}
}
