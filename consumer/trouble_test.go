package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// bad is a cluster whose partition 0 of "t" fails while err is set.
type bad struct {
	*strata.Cluster
	mu  sync.Mutex
	err error
}

func (s *bad) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *bad) now() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Fetch answers at once if a partition has an error, as the real one does.
func (s *bad) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	at := -1
	for i := range req.Partitions {
		if req.Partitions[i].TopicPartition == tp(0) {
			at = i
		}
	}
	err := s.now()
	if err == nil || at < 0 {
		return s.Cluster.Fetch(ctx, req)
	}
	now := *req
	now.MaxWait = 0
	resp, failed := s.Cluster.Fetch(ctx, &now)
	if failed == nil {
		resp.Partitions[at] = partition.FetchedPartition{TopicPartition: tp(0), Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}
	}
	return resp, failed
}

func (s *bad) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	got, err := s.Cluster.ListOffsets(ctx, at, iso)
	if _, asked := got[tp(0)]; asked && s.now() != nil {
		got[tp(0)] = partition.OffsetResult{Offset: -1, Err: s.now()}
	}
	return got, err
}

func TestPartitionInTroubleAddsNoLatencyToTheOthers(t *testing.T) {
	for name, located := range map[string]bool{"from the start": false, "later": true} {
		for _, g := range []string{"", "g"} {
			t.Run(name+" "+g, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					s := &bad{Cluster: b}
					if !located {
						s.set(partition.ErrNotLeader)
					}
					c := open(t, s, consumer.Config{Group: g, Topics: []string{"t"}, MaxWait: time.Hour})
					var mu sync.Mutex
					var worst time.Duration
					read := map[int32]int{}
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						for r, err := range c.Records(ctx) {
							if err != nil { // the error lasts for long: it is returned
								require.ErrorIs(t, err, partition.ErrNotLeader)
								continue
							}
							mu.Lock()
							read[r.Partition]++
							if r.Partition == 1 {
								worst = max(worst, time.Since(r.Timestamp))
							}
							mu.Unlock()
						}
					}()
					time.Sleep(10 * time.Second)
					s.set(partition.ErrNotLeader)
					p, err := producer.New(b, producer.Config{})
					require.NoError(t, err)
					for range 100 {
						_, err := p.Send(t.Context(), record.Record{Topic: "t", Value: []byte("v"), Timestamp: time.Now()}.To(1))
						require.NoError(t, err)
						time.Sleep(137 * time.Millisecond)
					}
					_, err = p.Send(t.Context(), record.String("t", "", "v").To(0))
					require.NoError(t, err)
					time.Sleep(10 * time.Second)
					s.set(nil)
					time.Sleep(10 * time.Second)
					mu.Lock()
					require.Equal(t, map[int32]int{0: 1, 1: 100}, read, "the partition came back")
					require.LessOrEqual(t, worst, 100*time.Millisecond)
					mu.Unlock()
					stop()
					<-done
					require.NoError(t, p.Close())
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

func TestErrorOfAPartitionIsToldOnceUntilItIsReadableAgain(t *testing.T) {
	broken := errors.New("directory is offline")
	for _, err := range []error{broken, partition.ErrNotLeader} {
		for _, when := range []string{"at open", "later"} {
			t.Run(fmt.Sprint(err, when), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 1, 3)
					s := &bad{Cluster: b}
					if when == "at open" {
						s.set(err)
					}
					c := open(t, s, consumer.Config{Topics: []string{"t"}})
					errs, values := collect(t, c, false)
					require.Len(t, values, 3)
					if when == "later" {
						require.Empty(t, errs)
						s.set(err)
						errs, _ = collect(t, c, true)
					}
					require.Len(t, errs, 1)
					var pe *consumer.PartitionError
					require.ErrorAs(t, errs[0], &pe)
					require.Equal(t, tp(0), pe.TopicPartition)
					require.ErrorIs(t, errs[0], err)
					errs, _ = collect(t, c, true)
					require.Empty(t, errs, "told once")
					s.set(nil)
					fill(t, b, 0, 2)
					errs, values = collect(t, c, false)
					require.Empty(t, errs)
					require.Len(t, values, 2, "readable again without help")
					s.set(err)
					errs, _ = collect(t, c, false)
					require.Len(t, errs, 1, "another failure is told again")
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

func TestErrorsThatPassAreNotTold(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		s := &bad{Cluster: b, err: partition.ErrNotLeader}
		c := open(t, s, consumer.Config{Topics: []string{"t"}})
		fill(t, b, 0, 1)
		time.AfterFunc(5*time.Second, func() { s.set(nil) })
		errs, values := collect(t, c, false)
		require.Empty(t, errs)
		require.Len(t, values, 1)
		require.NoError(t, c.Close())
	})
}

func TestConsumerOfAClosedClusterIsTold(t *testing.T) {
	wired.InProcess(t, "a cluster that is closed looks unreachable")
	for name, cfg := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := strata.Open(strata.Config{})
				require.NoError(t, err)
				require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Partitions: 2}))
				c := open(t, b, cfg)
				errs := errorsOf(t, c)
				time.Sleep(20 * time.Second)
				require.NoError(t, b.Close())
				begun := time.Now()
				err, ok := <-errs
				require.True(t, ok, "a fatal error is yielded")
				require.Error(t, err)
				_, ok = <-errs
				require.False(t, ok, "once, then the loop ends")
				require.LessOrEqual(t, time.Since(begun), consumer.DefaultHeartbeatInterval)
				_, err = c.Poll(t.Context())
				require.Error(t, err)
				begun = time.Now()
				_ = c.Close()
				require.LessOrEqual(t, time.Since(begun), time.Second)
				_, err = consumer.New(b, cfg)
				require.ErrorIs(t, err, replication.ErrClosed)
			})
		})
	}
}

// errorsOf reads with c for at most ten minutes. Its errors arrive through the channel, which is
// closed when the reading ends.
func errorsOf(t *testing.T, c *consumer.Consumer) <-chan error {
	errs := make(chan error, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	go func() {
		defer close(errs)
		defer cancel()
		for _, err := range c.Records(ctx) {
			if err == nil {
				continue
			}
			select {
			case errs <- err:
			case <-ctx.Done():
			}
		}
	}()
	return errs
}

// closing is a cluster in which one kind of call fails with ErrClosed after closed has ended.
type closing struct {
	*strata.Cluster
	call   string
	closed context.Context
}

// says reports whether calls of this kind fail.
func (s *closing) says(call string) bool { return s.call == call && s.closed.Err() != nil }

// until returns a context that ends with ctx, or when closed ends.
func (s *closing) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(s.closed, cancel)
	return ctx, cancel
}

func (s *closing) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	wait, cancel := s.until(ctx)
	defer cancel()
	v, err := s.Cluster.WaitMetadata(wait, after)
	if s.says("WaitMetadata") {
		return -1, replication.ErrClosed
	}
	if ctx.Err() == nil && err != nil { // the other calls do not report the end
		return s.Cluster.WaitMetadata(ctx, after)
	}
	return v, err
}

func (s *closing) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	wait, cancel := s.until(ctx)
	defer cancel()
	resp, err := s.Cluster.Fetch(wait, req)
	if s.says("Fetch") {
		return nil, replication.ErrClosed
	}
	if ctx.Err() == nil && err != nil {
		resp, err = s.Cluster.Fetch(ctx, req)
	}
	if err == nil && s.says("Fetch of a partition") {
		resp.Partitions[0].Err = replication.ErrClosed
	}
	return resp, err
}

func (s *closing) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	if s.says("ListOffsets") {
		return nil, replication.ErrClosed
	}
	return s.Cluster.ListOffsets(ctx, at, iso)
}

// Only one kind of call reports the end. Between two calls a cluster may close at any moment.
func TestClosedClusterIsToldByWhicheverCallHearsOfIt(t *testing.T) {
	for _, call := range []string{"WaitMetadata", "Fetch", "Fetch of a partition", "ListOffsets"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				closed, end := context.WithCancel(t.Context())
				s := &closing{Cluster: b, call: call, closed: closed}
				c := open(t, s, consumer.Config{Topics: []string{"t"}})
				if call == "ListOffsets" { // called once, at the start
					end()
				}
				errs := errorsOf(t, c)
				time.Sleep(20 * time.Second)
				end()
				begun := time.Now()
				err, ok := <-errs
				require.True(t, ok, "a fatal error is yielded")
				require.ErrorIs(t, err, replication.ErrClosed)
				_, ok = <-errs
				require.False(t, ok, "once, then the loop ends")
				require.LessOrEqual(t, time.Since(begun), consumer.DefaultHeartbeatInterval)
				_, err = c.Poll(t.Context())
				require.ErrorIs(t, err, replication.ErrClosed)
				require.NoError(t, c.Close())
			})
		})
	}
}
