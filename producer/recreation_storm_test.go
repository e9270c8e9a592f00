package producer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// recreationStorm deletes topic "a" of a cluster, creates it again and adds partitions, while
// producers send to it.
type recreationStorm struct {
	rnd     *rand.Rand
	disk    *vfs.MemFS
	cluster *strata.Cluster
	counts  map[string][]int // numbers of partitions of each incarnation, by topic id

	mu     sync.Mutex // guards the fields below
	acks   []stormAck
	failed int
}

type stormAck struct {
	value     string
	partition int32
	offset    int64
}

func TestProducersGoOnWhileTheirTopicIsDeletedCreatedAgainGrownAndShrunk(t *testing.T) {
	seeds := uint64(12)
	if sample.Hurried() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runRecreationStorm(t, seed) })
		})
	}
}

func runRecreationStorm(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 8))
	disk := vfs.Mem()
	c := openCluster(t, strata.Config{FS: disk, Defaults: topic.Config{Properties: map[string]string{"file.delete.delay.ms": "86400000"}}}, 4)
	s := &recreationStorm{rnd: rnd, disk: disk, cluster: c, counts: map[string][]int{}}
	s.note(t, 4)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var producers []*producer.Producer
	for i := range 4 {
		var b producer.Backend = over(t, c)
		if i%2 == 1 { // a lossy backend sees changes later, and loses answers
			b = (&lossy{c: c, rnd: rand.New(rand.NewPCG(seed, uint64(i))), chance: 10, delay: true, errors: true}).on(t)
		}
		p, err := producer.New(b, producer.Config{
			BatchBytes: 100 + rnd.IntN(2000), Linger: time.Duration(rnd.IntN(3)) * time.Millisecond, MaxBufferedBytes: 10_000,
		})
		require.NoError(t, err)
		producers = append(producers, p)
		wg.Go(func() { s.send(ctx, t, p, i) })
	}
	disturbances := 25
	if wired.On(t) { // the producers notice each of them later
		disturbances = 60
	}
	for range disturbances {
		time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
		s.disturb(t)
	}
	time.Sleep(20 * time.Millisecond)
	stop()
	wg.Wait()
	begun := time.Now()
	for i, p := range producers {
		_, err := p.Send(t.Context(), keyed(24, fmt.Sprintf("last-%d", i))...)
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	require.Less(t, time.Since(begun), 10*time.Second, "nothing was left that waits")
	require.NoError(t, c.Close())
	s.check(t)
}

// note records the number of partitions of topic "a".
func (s *recreationStorm) note(t *testing.T, n int) {
	id, ok := s.cluster.Backend().TopicID("a")
	require.True(t, ok)
	s.counts[id.String()] = append(s.counts[id.String()], n)
}

// disturb makes a random change to the topic.
func (s *recreationStorm) disturb(t *testing.T) {
	id, _ := s.cluster.Backend().TopicID("a")
	counts := s.counts[id.String()]
	n := counts[len(counts)-1]
	switch s.rnd.IntN(4) {
	case 0:
		n += 1 + s.rnd.IntN(3)
		require.NoError(t, s.cluster.AddPartitions(t.Context(), "a", n))
		s.note(t, n)
		return
	case 1: // as many again
	default:
		n = 1 + s.rnd.IntN(8)
	}
	require.NoError(t, s.cluster.DeleteTopic(t.Context(), "a"))
	if s.rnd.IntN(2) == 0 {
		time.Sleep(time.Duration(s.rnd.IntN(5000)) * time.Microsecond)
	}
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a", topic.Config{Partitions: n}))
	s.note(t, n)
}

// send sends records until ctx ends. Their values are producer-key-number, with rising numbers.
func (s *recreationStorm) send(ctx context.Context, t *testing.T, p *producer.Producer, who int) {
	rnd := rand.New(rand.NewPCG(uint64(who), 9))
	for n := 0; ctx.Err() == nil; n++ {
		k := rnd.IntN(24)
		r := record.String("a", fmt.Sprintf("key-%d", k), fmt.Sprintf("%d-%d-%d", who, k, n))
		begun := time.Now()
		p.SendAsync(t.Context(), r, func(got record.Record, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				s.failed++
				if !errors.Is(err, producer.ErrUnknownTopic) || time.Since(begun) > 10*time.Second {
					t.Errorf("%s fails after %v: %v", r.Value, time.Since(begun), err)
				}
				return
			}
			s.acks = append(s.acks, stormAck{string(r.Value), got.Partition, got.Offset})
		})
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
	}
	require.NoError(t, p.Flush(t.Context()))
}

// incarnations reads the records of each incarnation of topic "a", deleted or not, by topic id and
// partition.
func (s *recreationStorm) incarnations(t *testing.T) map[string]map[int32][]record.Record {
	root := "strata/broker-1"
	held := map[string]map[int32][]record.Record{}
	entries, err := s.disk.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), "a-")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(name, ".")
		index, err := strconv.Atoi(number)
		require.NoError(t, err)
		_, id, ok := strings.Cut(string(s.file(t, filepath.Join(root, e.Name(), "partition.metadata"))), "topic_id: ")
		require.True(t, ok)
		id, _, _ = strings.Cut(strings.TrimSpace(id), "\n") // the partition's number follows
		if held[id] == nil {
			held[id] = map[int32][]record.Record{}
		}
		held[id][int32(index)] = s.records(t, filepath.Join(root, e.Name(), "00000000000000000000.log"))
	}
	return held
}

func (s *recreationStorm) file(t *testing.T, name string) []byte {
	f, err := s.disk.OpenFile(name, os.O_RDONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	fi, err := s.disk.Stat(name)
	require.NoError(t, err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, fi.Size()))
	require.NoError(t, err)
	return b
}

func (s *recreationStorm) records(t *testing.T, name string) (rs []record.Record) {
	for p := s.file(t, name); len(p) > 0; {
		b, n, err := record.Parse(p)
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			rs = append(rs, r)
		}
		p = p[n:]
	}
	return rs
}

// check compares the logs of all incarnations with the results that the callbacks received.
func (s *recreationStorm) check(t *testing.T) {
	held := s.incarnations(t)
	places := map[stormAck]bool{}
	written := 0
	for id, partitions := range held {
		times := map[string]int{}
		for index, rs := range partitions {
			last := map[string]int{} // number, by producer and key
			for _, r := range rs {
				value := string(r.Value)
				places[stormAck{value, index, r.Offset}] = true
				if strings.HasPrefix(value, "last") {
					continue
				}
				written++
				times[value]++
				f := strings.Split(value, "-")
				n, err := strconv.Atoi(f[2])
				require.NoError(t, err)
				require.Greater(t, n, last[f[0]+"-"+f[1]]-1, "order of key %s in partition %d of %s", f[1], index, id)
				last[f[0]+"-"+f[1]] = n + 1
				require.True(t, slices.ContainsFunc(s.counts[id], func(count int) bool {
					return topic.Default().Partition(record.Record{Key: r.Key}, count) == int(index)
				}), "key %s is in partition %d of a topic that had %v", r.Key, index, s.counts[id])
			}
		}
		for value, n := range times {
			require.Equal(t, 1, n, "%s is in topic %s that often", value, id)
		}
	}
	for _, a := range s.acks {
		require.True(t, places[a], "%+v was acknowledged and is in no log", a)
	}
	require.Greater(t, len(s.acks), 1000)
	require.GreaterOrEqual(t, written, len(s.acks))
	t.Logf("%d topics, %d records acknowledged, %d written, %d failed", len(held), len(s.acks), written, s.failed)
}
