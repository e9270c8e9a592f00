package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A storm has members that take records of a topic and acknowledge, release or drop them. It keeps
// the state of each record.
type storm struct {
	*world
	parts []TopicPartition

	mu       sync.Mutex
	rng      *rand.Rand
	holder   map[string]string    // member that has the record, by record
	until    map[string]time.Time // time at which its lock ends
	final    map[string]bool      // a final acknowledgement was confirmed
	tried    map[string]bool      // a final acknowledgement was sent
	times    map[string]int
	takeover bool // leaders change: locks end early
	wrong    []string
}

func (s *storm) failf(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *storm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func newStorm(w *world, seed uint64, replicas int) *storm {
	s := &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0)), holder: map[string]string{}, until: map[string]time.Time{},
		final: map[string]bool{}, tried: map[string]bool{}, times: map[string]int{}}
	require.NoError(w, w.cluster.CreateTopic(w.Context(), "jobs", topic.Config{Partitions: 2, ReplicationFactor: replicas}))
	id, _ := w.cluster.TopicID("jobs")
	for p := range int32(2) {
		s.parts = append(s.parts, TopicPartition{record.TopicPartition{Topic: "jobs", Partition: p}, id})
	}
	return s
}

// produce writes records first to first+n-1, with their numbers as values. A repeated call does
// not write them again.
func (w *world) produce(p int32, first, n int) error {
	var b record.Builder
	b.Reset(0)
	b.SetProducer(int64(1_000_000+first), 0, 0)
	for i := range n {
		b.AppendKV(time.Now().UnixMilli(), nil, []byte(strconv.Itoa(first+i)), nil)
	}
	batch, err := b.Build(record.None)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	w.cluster.Produce(&partition.ProduceRequest{TopicPartition: record.TopicPartition{Topic: "jobs", Partition: p}, Batch: batch, Acks: record.AcksAll,
		Done: func(r partition.ProduceResult) { done <- r.Err }})
	return <-done
}

// values returns the fetched records, by offset.
func values(f Fetched) (all map[int64]string, err error) {
	all = map[int64]string{}
	for p := f.Bytes; len(p) > 0; {
		b, n, err := record.Parse(p)
		if err != nil {
			return nil, err
		}
		for r, err := range b.All() {
			if err != nil {
				return nil, err
			}
			for _, d := range f.Deliveries {
				if d.First <= r.Offset && r.Offset <= d.Last {
					all[r.Offset] = string(r.Value)
				}
			}
		}
		p = p[n:]
	}
	return all, nil
}

// took notes the records that a member received.
func (s *storm) took(member string, f Fetched, all map[int64]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range all {
		if s.final[v] {
			s.failf("%s is handed out to %s after it was done with", v, member)
		}
		if h := s.holder[v]; h != "" && !s.takeover && time.Now().Before(s.until[v]) {
			s.failf("%s is handed out to %s, and %s has it", v, member, h)
		}
		s.holder[v], s.until[v] = member, time.Now().Add(s.c.cfg.LockDuration)
		s.times[v]++
	}
}

// member takes records and acknowledges or drops them until ctx ends.
func (s *storm) member(ctx context.Context, name string) {
	for ctx.Err() == nil {
		f, err := s.c.Fetch(ctx, FetchRequest{Group: "g", Member: name, Partitions: s.parts, MaxRecords: 1 + s.n(6), Reset: partition.Earliest})
		if err != nil {
			time.Sleep(time.Duration(1+s.n(50)) * time.Millisecond)
			continue
		}
		all, err := values(f)
		s.mu.Lock()
		if err != nil {
			s.failf("%v", err)
		}
		s.mu.Unlock()
		s.took(name, f, all)
		time.Sleep(time.Duration(s.n(300)) * time.Millisecond)
		switch s.n(12) {
		case 0: // hangs until its locks have passed
			time.Sleep(2 * s.c.cfg.LockDuration)
		case 1:
			s.mu.Lock()
			for _, v := range all {
				s.holder[v] = ""
			}
			s.mu.Unlock()
			_ = s.c.Leave(ctx, "g", name)
		default:
			s.acknowledge(ctx, name, f, all, s.n(5) == 0)
		}
	}
}

// acknowledge accepts or releases all records.
func (s *storm) acknowledge(ctx context.Context, name string, f Fetched, all map[int64]string, release bool) {
	for _, d := range f.Deliveries {
		a := Ack{First: d.First, Last: d.Last, Types: []AckType{Accept}}
		s.mu.Lock()
		for o := d.First; o <= d.Last; o++ {
			if release {
				s.holder[all[o]] = ""
			} else {
				s.tried[all[o]] = true
			}
		}
		s.mu.Unlock()
		if release {
			a.Types[0] = Release
		}
		err := s.c.Acknowledge(ctx, "g", name, f.TopicPartition, []Ack{a})
		s.mu.Lock()
		for o := d.First; o <= d.Last && err == nil && !release; o++ {
			if s.final[all[o]] {
				s.failf("%s was accepted twice", all[o])
			}
			s.final[all[o]], s.holder[all[o]] = true, ""
		}
		if errors.Is(err, ErrInvalidRequest) {
			s.failf("%v", err)
		}
		s.mu.Unlock()
	}
}

// run makes members process all records while disturb runs. Then it checks that every record was
// accepted by a member.
func (s *storm) run(records int, disturb func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var members, others sync.WaitGroup
	for i := range 5 {
		members.Go(func() { s.member(ctx, fmt.Sprint("m", i)) })
	}
	others.Go(disturb)
	for i := 0; i < records; i += 10 {
		for s.produce(int32(i/10%2), i, 10) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Duration(s.n(400)) * time.Millisecond)
	}
	others.Wait()
	for began := time.Now(); ; time.Sleep(time.Second) {
		s.mu.Lock()
		done := len(s.tried)
		for i := range records {
			if !s.tried[strconv.Itoa(i)] {
				done = -1
			}
		}
		s.mu.Unlock()
		if done >= 0 {
			break
		}
		require.Less(s, time.Since(began), time.Hour, "records are stuck")
	}
	time.Sleep(10 * s.c.cfg.LockDuration)
	cancel()
	members.Wait()
	require.Empty(s, s.wrong)
	for i := range records {
		require.True(s, s.final[strconv.Itoa(i)] || s.tried[strconv.Itoa(i)], "record %d", i)
	}
}

// Checklist row S7.
func TestEveryRecordIsAcceptedOnceByTheMemberThatHasIt(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			w := open(t, 1, vfs.Mem(), Config{Topic: testTopic, LockDuration: 2 * time.Second, MaxDeliveryCount: 1000, MaxInFlight: 30})
			defer w.close()
			newStorm(w, seed, 1).run(300, func() {})
		})
	}
}

// Checklist row S8: brokers are killed and restarted, so that the leaders of the partitions and
// the coordinators of their states change all the time.
func TestEveryRecordIsAcceptedWhoeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 3, vfs.Mem(), Config{Topic: testTopic, LockDuration: 2 * time.Second, MaxDeliveryCount: 1000})
		defer w.close()
		s := newStorm(w, 1, 3)
		s.takeover = true
		s.run(300, func() {
			for i := range int32(9) {
				id := i%3 + 1
				time.Sleep(2 * time.Second)
				require.NoError(t, w.cluster.KillBroker(id))
				time.Sleep(time.Second)
				require.NoError(t, w.cluster.StartBroker(t.Context(), id))
			}
		})
	})
}

// Checklist row S8: accepted records stay accepted when the process dies, and the others are
// handed out.
func TestAcceptedRecordsAreNotHandedOutByTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		cfg := Config{Topic: testTopic}
		w := open(t, 1, disk, cfg)
		s := newStorm(w, 1, 1)
		require.NoError(t, w.produce(0, 0, 10))
		req := FetchRequest{Group: "g", Member: "a", Partitions: s.parts, MaxRecords: 8, Reset: partition.Earliest}
		f, err := w.c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []Delivery{{First: 0, Last: 7, Count: 1}}, f.Deliveries)
		require.NoError(t, w.c.Acknowledge(t.Context(), "g", "a", f.TopicPartition,
			[]Ack{{First: 0, Last: 3, Types: []AckType{Accept, Release, Reject, Gap}}, {First: 5, Last: 5, Types: []AckType{Accept}}}))
		killed := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		w.close()

		w = open(t, 1, killed, cfg)
		defer w.close()
		req.Member = "b"
		f, err = w.c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []Delivery{{First: 1, Last: 1, Count: 2}, {First: 4, Last: 4, Count: 1}, {First: 6, Last: 9, Count: 1}}, f.Deliveries)
		require.ErrorIs(t, w.c.Acknowledge(t.Context(), "g", "a", f.TopicPartition, []Ack{{First: 4, Last: 4, Types: []AckType{Accept}}}), ErrInvalidRecordState)
	})
}

// Checklist row S9.
func TestAFetchThatWaitsIsToldAndDoesNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic, MaxInFlight: 5})
		defer w.close()
		s := newStorm(w, 1, 1)
		began := time.Now()
		req := FetchRequest{Group: "g", Member: "a", Partitions: s.parts, MaxRecords: 5, Reset: partition.Latest}
		fetch := func(member string) (got Fetched, after time.Duration) {
			r := req
			r.Member = member
			got, err := w.c.Fetch(t.Context(), r)
			require.NoError(t, err)
			return got, time.Since(began)
		}
		do := func(after time.Duration, f func() error) {
			time.AfterFunc(after-time.Since(began), func() { require.NoError(t, f()) })
		}
		do(1200*time.Millisecond, func() error { return w.produce(1, 0, 10) })
		got, at := fetch("a") // waits for the log to grow
		require.Equal(t, 1200*time.Millisecond, at)
		require.Equal(t, []Delivery{{First: 0, Last: 4, Count: 1}}, got.Deliveries)
		do(2300*time.Millisecond, func() error {
			return w.c.Acknowledge(t.Context(), "g", "a", got.TopicPartition, []Ack{{First: 0, Last: 0, Types: []AckType{Accept}}})
		})
		second, at := fetch("b") // waits for room
		require.Equal(t, 2300*time.Millisecond, at)
		require.Equal(t, []Delivery{{First: 5, Last: 5, Count: 1}}, second.Deliveries)
		do(3400*time.Millisecond, func() error {
			return w.c.Acknowledge(t.Context(), "g", "a", got.TopicPartition, []Ack{{First: 2, Last: 2, Types: []AckType{Release}}})
		})
		second, at = fetch("b") // for a release
		require.Equal(t, 3400*time.Millisecond, at)
		require.Equal(t, []Delivery{{First: 2, Last: 2, Count: 2}}, second.Deliveries)
		do(4500*time.Millisecond, func() error { return w.c.Leave(t.Context(), "g", "b") })
		second, at = fetch("c") // for a member to leave
		require.Equal(t, 4500*time.Millisecond, at)
		require.Equal(t, []Delivery{{First: 2, Last: 2, Count: 2}, {First: 5, Last: 5, Count: 1}}, second.Deliveries)
		second, at = fetch("d") // for locks to pass
		require.Equal(t, 1200*time.Millisecond+30*time.Second, at)
		require.Equal(t, []Delivery{{First: 1, Last: 1, Count: 2}, {First: 3, Last: 4, Count: 2}}, second.Deliveries)
		for _, d := range []struct {
			member string
			offset int64
		}{{"d", 1}, {"c", 2}, {"d", 3}, {"d", 4}, {"c", 5}} {
			require.NoError(t, w.c.Acknowledge(t.Context(), "g", d.member, got.TopicPartition, []Ack{{First: d.offset, Last: d.offset, Types: []AckType{Accept}}}))
		}
		second, _ = fetch("e")
		require.Equal(t, []Delivery{{First: 6, Last: 9, Count: 1}}, second.Deliveries)
		do(32*time.Second, func() error {
			return w.c.Acknowledge(t.Context(), "g", "e", got.TopicPartition, []Ack{{First: 7, Last: 7, Types: []AckType{Release}}})
		})
		second, at = fetch("f") // for a release, at the end of the log, with room for more
		require.Equal(t, 32*time.Second, at)
		require.Equal(t, []Delivery{{First: 7, Last: 7, Count: 2}}, second.Deliveries)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.c.Fetch(ctx, req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = w.c.Fetch(t.Context(), FetchRequest{Group: "g", Partitions: []TopicPartition{{record.TopicPartition{Topic: "none"}, topic.ID{1}}}, MaxRecords: 1})
		require.ErrorIs(t, err, replication.ErrUnknownTopic)
		_, err = w.c.Fetch(t.Context(), FetchRequest{Group: "g", Partitions: s.parts})
		require.ErrorIs(t, err, ErrInvalidRequest)
	})
}
