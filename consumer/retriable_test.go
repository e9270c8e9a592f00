package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

// decided is an error of a backend that decides whether its call is retried. It wraps the error
// that it is made of.
type decided struct {
	error
	retriable bool
}

func (e decided) Retriable() bool { return e.retriable }
func (e decided) Unwrap() error   { return e.error }

var _ consumer.Retriable = decided{}

// failing is a cluster in which one kind of call fails while err is set.
type failing struct {
	*strata.Cluster
	mu    sync.Mutex
	call  string
	err   error
	calls map[string]int // failed ones
}

func (f *failing) set(call string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.err, f.calls = call, err, map[string]int{}
}

func (f *failing) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *failing) fails(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.call != call || f.err == nil {
		return nil
	}
	f.calls[call]++
	return f.err
}

func (f *failing) Join(ctx context.Context, r group.JoinRequest) (group.JoinResponse, error) {
	if err := f.fails("Join"); err != nil {
		return group.JoinResponse{}, err
	}
	return f.Cluster.Join(ctx, r)
}

func (f *failing) Sync(ctx context.Context, r group.SyncRequest) (group.SyncResponse, error) {
	if err := f.fails("Sync"); err != nil {
		return group.SyncResponse{}, err
	}
	return f.Cluster.Sync(ctx, r)
}

func (f *failing) Heartbeat(ctx context.Context, r group.HeartbeatRequest) error {
	if err := f.fails("Heartbeat"); err != nil {
		return err
	}
	return f.Cluster.Heartbeat(ctx, r)
}

func (f *failing) ConsumerHeartbeat(ctx context.Context, r group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	if err := f.fails("ConsumerHeartbeat"); err != nil && r.MemberEpoch >= 0 {
		return group.ConsumerHeartbeatResponse{}, err
	}
	return f.Cluster.ConsumerHeartbeat(ctx, r)
}

func (f *failing) Group(ctx context.Context, id string) (group.Info, error) {
	if err := f.fails("Group"); err != nil {
		return group.Info{}, err
	}
	return f.Cluster.Group(ctx, id)
}

func (f *failing) CommitOffsets(ctx context.Context, r group.CommitRequest) (map[record.TopicPartition]error, error) {
	if err := f.fails("CommitOffsets"); err != nil {
		return nil, err
	}
	return f.Cluster.CommitOffsets(ctx, r)
}

func (f *failing) FetchStableOffsets(ctx context.Context, g string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, map[record.TopicPartition]error, error) {
	if err := f.fails("FetchStableOffsets"); err != nil {
		return nil, nil, err
	}
	return f.Cluster.FetchStableOffsets(ctx, g, tps)
}

func (f *failing) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	if err := f.fails("Metadata"); err != nil {
		return replication.Metadata{}, err
	}
	md, err := f.Cluster.Metadata(ctx, topics...)
	if failed := f.fails("Metadata of a topic"); failed != nil {
		md.Topics = map[string]replication.TopicMetadata{"t": {Err: failed}}
	}
	return md, err
}

func (f *failing) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	if err := f.fails("WaitMetadata"); err != nil {
		return -1, err
	}
	return f.Cluster.WaitMetadata(ctx, after)
}

func (f *failing) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	if err := f.fails("Fetch"); err != nil {
		return nil, err
	}
	err := f.fails("Fetch of a partition")
	if err == nil {
		return f.Cluster.Fetch(ctx, req)
	}
	resp := &partition.FetchResponse{}
	for _, p := range req.Partitions {
		resp.Partitions = append(resp.Partitions, partition.FetchedPartition{TopicPartition: p.TopicPartition, Err: err, HighWatermark: -1})
	}
	return resp, nil
}

func (f *failing) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	if err := f.fails("ListOffsets"); err != nil {
		return nil, err
	}
	got, err := f.Cluster.ListOffsets(ctx, at, iso)
	if failed := f.fails("ListOffsets of a partition"); failed != nil {
		for tp := range got {
			got[tp] = partition.OffsetResult{Offset: -1, Err: failed}
		}
	}
	return got, err
}

// pollers are the ways to poll. Each returns the error that ends it.
var pollers = map[string]func(ctx context.Context, t *testing.T, f *failing, c *consumer.Consumer) error{
	"Poll": func(ctx context.Context, _ *testing.T, _ *failing, c *consumer.Consumer) error {
		for {
			if _, err := c.Poll(ctx); err != nil {
				return err
			}
		}
	},
	"Records": func(ctx context.Context, _ *testing.T, _ *failing, c *consumer.Consumer) error {
		return lastError(c.Records(ctx))
	},
	"Batches": func(ctx context.Context, _ *testing.T, _ *failing, c *consumer.Consumer) error {
		return lastError(c.Batches(ctx))
	},
	"Run": func(ctx context.Context, _ *testing.T, _ *failing, c *consumer.Consumer) error {
		return c.Run(ctx, func(context.Context, record.Record) error { return nil }, consumer.RunConfig{})
	},
	"Transform": func(ctx context.Context, t *testing.T, f *failing, c *consumer.Consumer) error {
		p, err := producer.New(f.Cluster, producer.Config{TransactionalID: "tx"})
		require.NoError(t, err)
		defer p.Close()
		return consumer.Transform(ctx, c, p, func(record.Record, func(record.Record)) error { return nil })
	},
}

// lastError returns the last error of a sequence that ends by itself.
func lastError[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// A final error decides, whatever it wraps, and each call for the membership counts.
func TestRefusedGroupEndsPollingWithTheError(t *testing.T) {
	denied := errors.New("not authorized")
	for call, wraps := range map[string]error{
		"Join": group.ErrUnknownMember, "Sync": group.ErrRebalanceInProgress, "Heartbeat": group.ErrRebalanceInProgress,
		"ConsumerHeartbeat": group.ErrUnknownMember, "ConsumerHeartbeat of a member": group.ErrFencedMemberEpoch,
		"FetchStableOffsets": group.ErrUnstableOffsetCommit, "Metadata": replication.ErrUnknownTopic,
		"Metadata of a topic": replication.ErrUnknownTopic, "WaitMetadata": partition.ErrTimeout,
	} {
		for name, poll := range pollers {
			t.Run(call+"/"+name, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					f := &failing{Cluster: b}
					cfg := config(consumer.CommitProcessed)
					fails, later := call, false
					switch call {
					case "ConsumerHeartbeat":
						cfg.Protocol = consumer.ProtocolConsumer
					case "ConsumerHeartbeat of a member":
						cfg.Protocol, fails, later = consumer.ProtocolConsumer, "ConsumerHeartbeat", true
					case "Heartbeat", "Metadata", "Metadata of a topic", "WaitMetadata":
						later = true
					}
					refuse := func() { f.set(fails, fmt.Errorf("%w: %w", wraps, decided{denied, false})) }
					if !later {
						refuse()
					}
					c := open(t, f, cfg)
					if later {
						time.AfterFunc(time.Minute, func() {
							refuse()
							_ = b.CreateTopic(context.Background(), "other", topic.Config{}) // the metadata are read again
						})
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					begun := time.Now()
					err := poll(ctx, t, f, c)
					require.ErrorIs(t, err, denied)
					require.LessOrEqual(t, time.Since(begun), time.Minute+5*time.Second)
					time.Sleep(5 * time.Second) // other goroutines notice, too
					calls := f.count(fails)
					time.Sleep(time.Minute)
					require.Equal(t, calls, f.count(fails), "nothing is retried")
					_, err = c.Poll(t.Context())
					require.ErrorIs(t, err, denied, "the error stays")
					f.set("", nil)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// The pauses between attempts grow to a second, and the log has at most two lines a second. A change
// of the metadata ends a pause.
func TestFailingGroupIsRetriedWithGrowingPauses(t *testing.T) {
	for call, protocol := range map[string]consumer.Protocol{
		"Join": consumer.ProtocolClassic, "Sync": consumer.ProtocolClassic, "ConsumerHeartbeat": consumer.ProtocolConsumer,
	} {
		t.Run(call, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				f := &failing{Cluster: b}
				f.set(call, errors.New("out of order"))
				var out bytes.Buffer
				cfg := config(consumer.CommitProcessed)
				cfg.Protocol, cfg.Logger = protocol, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
				m := poll(t, open(t, f, cfg), nil)
				time.Sleep(time.Second)
				early := f.count(call)
				require.Greater(t, early, 5, "the first pauses are short")
				require.Less(t, early, 12)
				time.Sleep(29 * time.Second)
				require.Less(t, f.count(call)-early, 31)
				require.Greater(t, f.count(call)-early, 25)
				synctest.Wait()
				require.LessOrEqual(t, bytes.Count(out.Bytes(), []byte("membership interrupted")), 60)
				require.GreaterOrEqual(t, bytes.Count(out.Bytes(), []byte("membership interrupted")), 20)
				require.Regexp(t, "lines_left_out=[67]", out.String())
				f.set(call, nil)
				require.NoError(t, b.CreateTopic(t.Context(), "other", topic.Config{}))
				time.Sleep(50 * time.Millisecond)
				require.Len(t, m.Assignment(), 1, "the change of the metadata ends the pause")

				f.set(call, errors.New("out of order"))
				m.EnforceRebalance()
				time.Sleep(200 * time.Millisecond)
				require.Greater(t, f.count(call), 0)
				f.set(call, nil)
				time.Sleep(300 * time.Millisecond)
				require.Equal(t, 1, len(m.Assignment()), "the pauses begin short again")
				m.leave(t)
			})
		})
	}
}

// A member that cannot read its topics' metadata retries as it does for its group.
func TestFailingMetadataAreReadAgainWithGrowingPauses(t *testing.T) {
	for _, protocol := range []consumer.Protocol{consumer.ProtocolClassic, consumer.ProtocolConsumer} {
		t.Run(protocol.String(), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				f := &failing{Cluster: b}
				var out bytes.Buffer
				cfg := config(consumer.CommitProcessed)
				cfg.Protocol, cfg.Logger = protocol, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
				m := poll(t, open(t, f, cfg), nil)
				waitStable(t, b, "g", 1)
				f.set("Metadata", errors.New("connection refused"))
				m.EnforceRebalance()
				time.Sleep(30 * time.Second)
				require.Less(t, f.count("Metadata"), 2*45, "of the membership and of the watch")
				synctest.Wait()
				require.LessOrEqual(t, bytes.Count(out.Bytes(), []byte("level=WARN")), 60)
				f.set("", nil)
				fill(t, b, 0, 1)
				time.Sleep(5 * time.Second)
				require.Equal(t, int64(1), m.Stats().Records)
				m.leave(t)
			})
		})
	}
}

func TestRefusedCommitEndsPollingWithTheError(t *testing.T) {
	denied := errors.New("not authorized")
	refused := fmt.Errorf("%w: %w", group.ErrRebalanceInProgress, decided{denied, false})
	for name, poll := range pollers {
		if name == "Transform" { // its commits are the producer's
			continue
		}
		for _, mode := range []consumer.CommitMode{consumer.CommitProcessed, consumer.CommitManual, consumer.CommitBeforeDelivery} {
			if mode == consumer.CommitBeforeDelivery && name == "Run" {
				continue
			}
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					f := &failing{Cluster: b}
					f.set("CommitOffsets", refused)
					fill(t, b, 0, 10)
					c := open(t, f, config(mode))
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					begun := time.Now()
					if mode == consumer.CommitManual { // without a callback
						time.AfterFunc(10*time.Second, func() { c.CommitAsync(record.Offsets{tp(0): 10}, nil) })
						begun = begun.Add(10 * time.Second)
					}
					require.ErrorIs(t, poll(ctx, t, f, c), denied)
					require.LessOrEqual(t, time.Since(begun), 5*time.Second)
					require.NotErrorIs(t, c.Commit(t.Context(), record.Record{Topic: "t", Offset: 9}), consumer.ErrRebalanced)
					f.set("", nil)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// A callback receives the error, and polling continues.
func TestRefusedCommitWithACallbackDoesNotEndPolling(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		f := &failing{Cluster: b}
		fill(t, b, 0, 1)
		c := open(t, f, config(consumer.CommitManual))
		read(t, c, 1)
		denied := errors.New("not authorized")
		f.set("CommitOffsets", decided{denied, false})
		failed := make(chan error, 1)
		c.CommitAsync(record.Offsets{tp(0): 1}, func(_ record.Offsets, err error) { failed <- err })
		require.ErrorIs(t, <-failed, denied)
		fill(t, b, 0, 1)
		read(t, c, 1)
		require.NoError(t, c.Close())
	})
}

func TestCommitsThatKeepFailingAreWarnedOf(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		f := &failing{Cluster: b}
		fill(t, b, 0, 10)
		var out bytes.Buffer
		cfg := config(consumer.CommitProcessed)
		cfg.CommitInterval, cfg.Logger = 100*time.Millisecond, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		m := poll(t, open(t, f, cfg), nil)
		waitStable(t, b, "g", 1)
		f.set("CommitOffsets", group.ErrCoordinatorNotAvailable)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lines := bytes.Count(out.Bytes(), []byte("commits fail"))
		require.LessOrEqual(t, lines, 20)
		require.GreaterOrEqual(t, lines, 10)
		f.set("", nil)
		time.Sleep(time.Second)
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b, "g"))
		require.Equal(t, lines, bytes.Count(out.Bytes(), []byte("commits fail")))
		m.leave(t)
	})
}

func TestLastCommitIsRetriedWhileTheCoordinatorMoves(t *testing.T) {
	for name, moving := range map[string]error{"in process": group.ErrNotCoordinator, "over a network": decided{errors.New("cut"), true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				f := &failing{Cluster: b}
				fill(t, b, 0, 2)
				c := open(t, f, config(consumer.CommitProcessed))
				for r, err := range c.Records(t.Context()) {
					require.NoError(t, err)
					if r.Offset == 1 { // the record before it is processed
						break
					}
				}
				f.set("CommitOffsets", moving)
				defer time.AfterFunc(consumer.DefaultHeartbeatInterval/2, func() { f.set("", nil) }).Stop()
				require.NoError(t, c.Close())
				require.Equal(t, record.Offsets{tp(0): 1}, committed(t, b, "g"))
			})
		})
	}
}

func TestCoordinatorThatMovesIsNotReportedByPoll(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		f := &failing{Cluster: b}
		fill(t, b, 0, 1)
		c := open(t, f, config(consumer.CommitProcessed))
		f.set("FetchStableOffsets", group.ErrNotCoordinator)
		defer time.AfterFunc(5*time.Second, func() { f.set("", nil) }).Stop()
		read(t, c, 1)
		require.NoError(t, c.Close())
	})
}

func TestErrorOfAPartitionDecidesWhetherItIsRetried(t *testing.T) {
	for _, call := range []string{"Fetch of a partition", "ListOffsets of a partition"} {
		t.Run("final/"+call, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 1)
				denied := errors.New("not authorized")
				f := &failing{Cluster: b}
				f.set(call, fmt.Errorf("%w: %w", partition.ErrNotLeader, decided{denied, false}))
				c := open(t, f, consumer.Config{Topics: []string{"t"}})
				begun := time.Now()
				_, err := c.Poll(t.Context())
				require.ErrorIs(t, err, denied)
				require.Zero(t, time.Since(begun))
				var pe *consumer.PartitionError
				require.ErrorAs(t, err, &pe)
				errs, _ := collect(t, c, true)
				require.Empty(t, errs, "reported once")
				require.Equal(t, 1, f.count(call), "and not retried")
				f.set("", nil)
				require.NoError(t, c.SeekToStart())
				read(t, c, 1)
				require.NoError(t, c.Close())
			})
		})
	}
	for _, call := range []string{"Fetch", "Fetch of a partition", "ListOffsets", "ListOffsets of a partition"} {
		t.Run("transient/"+call, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 1)
				f := &failing{Cluster: b}
				cut := errors.New("connection reset")
				f.set(call, fmt.Errorf("%w", decided{cut, true}))
				c := open(t, f, consumer.Config{Topics: []string{"t"}})
				begun := time.Now()
				_, err := c.Poll(t.Context())
				require.ErrorIs(t, err, cut)
				require.InDelta(t, 10, time.Since(begun).Seconds(), 1, "it is reported once it has lasted")
				time.AfterFunc(5*time.Second, func() { f.set("", nil) })
				read(t, c, 1)
				require.NoError(t, c.Close())
			})
		})
	}
	t.Run("final/Fetch", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
			f := &failing{Cluster: b}
			denied := errors.New("not authorized")
			f.set("Fetch", decided{denied, false})
			c := open(t, f, consumer.Config{Topics: []string{"t"}})
			require.ErrorIs(t, lastError(c.Records(t.Context())), denied, "the loop ends")
			require.NoError(t, c.Close())
		})
	})
}

var readers = map[string]func(context.Context, consumer.LogBackend, consumer.ReadConfig) iter.Seq2[record.Record, error]{
	"Read": consumer.Read, "Follow": consumer.Follow,
}

func TestReadAndFollowRetryWhatPasses(t *testing.T) {
	for name, read := range readers {
		for _, call := range []string{"Metadata", "Metadata of a topic", "WaitMetadata", "Fetch", "Fetch of a partition", "ListOffsets", "ListOffsets of a partition"} {
			if name == "Read" && call == "WaitMetadata" {
				continue
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 3)
					f := &failing{Cluster: b}
					cut := errors.New("connection reset")
					f.set(call, fmt.Errorf("%w", decided{cut, true}))
					time.AfterFunc(5*time.Second, func() { f.set("", nil) })
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					n := 0
					for _, err := range read(ctx, f, consumer.ReadConfig{Topic: "t"}) {
						require.NoError(t, err)
						n++
					}
					require.Equal(t, 3, n)

					f.set(call, fmt.Errorf("%w", decided{cut, true}))
					begun := time.Now()
					require.ErrorIs(t, lastError(read(t.Context(), f, consumer.ReadConfig{Topic: "t"})), cut)
					require.InDelta(t, 10, time.Since(begun).Seconds(), 1)

					f.set(call, fmt.Errorf("%w: %w", partition.ErrNotLeader, decided{cut, false}))
					begun = time.Now()
					require.ErrorIs(t, lastError(read(t.Context(), f, consumer.ReadConfig{Topic: "t"})), cut)
					require.Zero(t, time.Since(begun))
				})
			})
		}
	}
}

func TestNewRetriesWhatPasses(t *testing.T) {
	for _, call := range []string{"Metadata", "Metadata of a topic"} {
		for name, cfg := range map[string]consumer.Config{"group": config(consumer.CommitProcessed), "free": {Topics: []string{"t"}}} {
			t.Run(call+"/"+name, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 1)
					f := &failing{Cluster: b}
					f.set(call, decided{replication.ErrUnknownTopic, true})
					time.AfterFunc(5*time.Second, func() { f.set("", nil) })
					c := open(t, f, cfg)
					read(t, c, 1)
					require.NoError(t, c.Close())

					f.set(call, decided{replication.ErrUnknownTopic, false})
					cfg.AllowUnknownTopics = true
					_, err := consumer.New(f, cfg)
					require.ErrorIs(t, err, replication.ErrUnknownTopic)
				})
			})
		}
	}
}

// A topic whose metadata cannot be read at present is not taken for a deleted one.
func TestTopicThatMayExistKeepsItsPartitions(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{"group": config(consumer.CommitProcessed), "free": {Topics: []string{"t"}}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				f := &failing{Cluster: b}
				lost := 0
				cfg.OnLost = func(context.Context, []record.TopicPartition) { lost++ }
				fill(t, b, 0, 3)
				m := poll(t, open(t, f, cfg), nil)
				time.Sleep(10 * time.Second)
				f.set("Metadata of a topic", decided{replication.ErrUnknownTopic, true})
				require.NoError(t, b.CreateTopic(t.Context(), "other", topic.Config{}))
				time.Sleep(10 * time.Second)
				require.Len(t, m.Assignment(), 1)
				f.set("", nil)
				time.Sleep(10 * time.Second)
				require.Equal(t, int64(3), m.Stats().Records, "nothing is read twice")
				m.leave(t)
				require.Zero(t, lost)
			})
		})
	}
}

func TestLoopOfAShareGroupEndsWithAFinalError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		f := &failingShares{Cluster: b}
		s, err := consumer.NewShare(f, consumer.ShareConfig{Group: "s", Topics: []string{"t"}})
		require.NoError(t, err)
		denied := errors.New("not authorized")
		f.err = decided{denied, false}
		require.ErrorIs(t, lastError(s.Records(t.Context())), denied)
		require.Equal(t, 1, f.fetches)
		require.NoError(t, s.Close())
	})
}

func TestShareGroupContinuesAfterAPassingError(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		f := &failingShares{Cluster: b}
		s, err := consumer.NewShare(f, consumer.ShareConfig{Group: "s", Topics: []string{"t"}})
		require.NoError(t, err)
		f.err, f.left = decided{errors.New("cut off"), true}, 3
		recs, err := s.Poll(t.Context())
		require.NoError(t, err)
		require.Len(t, recs, 1)
		require.Equal(t, 4, f.fetches)
		require.NoError(t, s.Close())
	})
}

// failingShares is a cluster whose members of share groups get err from Fetch; if left is set, so
// many times.
type failingShares struct {
	*strata.Cluster
	err           error
	fetches, left int
}

func (f *failingShares) JoinShare(ctx context.Context, m consumer.ShareMember) (consumer.ShareMembership, error) {
	s, err := f.Cluster.JoinShare(ctx, m)
	return &failingMember{s, f}, err
}

type failingMember struct {
	consumer.ShareMembership
	f *failingShares
}

func (m *failingMember) Fetch(ctx context.Context, max int) (share.Fetched, error) {
	m.f.fetches++
	if err := m.f.err; err != nil {
		if m.f.left--; m.f.left == 0 {
			m.f.err = nil
		}
		return share.Fetched{}, err
	}
	return m.ShareMembership.Fetch(ctx, max)
}
