package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// truncating is a cluster of three brokers. Partition 0 of "t" is on brokers 1 and 2, and has five
// records.
type truncating struct {
	*strata.Cluster
	t *testing.T
}

func inTruncating(t *testing.T, fn func(t *testing.T, c *truncating)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{
			Assignment: [][]int32{{1, 2}}, Properties: map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
		}))
		over(t, b) // a network serves the brokers that run when it begins
		c := &truncating{b, t}
		c.write("both", 5)
		fn(t, c)
	})
}

func (c *truncating) write(value string, n int) {
	p, err := producer.New(c.Cluster, producer.Config{})
	require.NoError(c.t, err)
	for i := range n {
		_, err = p.Send(c.t.Context(), record.String("t", "", fmt.Sprint(value, " ", i)).To(0))
		require.NoError(c.t, err)
	}
	require.NoError(c.t, p.Close())
}

// alone lets broker 1 write five records that broker 2 does not get.
func (c *truncating) alone() {
	require.NoError(c.t, c.StopBroker(c.t.Context(), 2))
	c.write("lost", 5)
}

// elect makes broker 2 the leader, in an unclean election, and writes n records there.
func (c *truncating) elect(n int) {
	require.NoError(c.t, c.KillBroker(1))
	require.NoError(c.t, c.StartBroker(c.t.Context(), 2))
	c.write("after", n)
}

// valuesOf returns the values of n records.
func valuesOf(rs []record.Record) (values []string) {
	for _, r := range rs {
		values = append(values, string(r.Value))
	}
	return values
}

// The log is cut below the position and grows beyond it before the next fetch: only the leader
// epochs differ.
func TestRecordsBehindACutAreReadFromWhereTheLogDiverges(t *testing.T) {
	for _, g := range []string{"", "g"} {
		for _, n := range []int{0, 3, 5, 12} {
			t.Run(fmt.Sprint(g, n), func(t *testing.T) {
				inTruncating(t, func(t *testing.T, b *truncating) {
					c := open(t, b.Cluster, consumer.Config{Group: g, Topics: []string{"t"}, MaxWait: time.Second})
					read(t, c, 5)
					b.alone()
					read(t, c, 5)
					b.elect(n)
					if n == 0 {
						b.write("after", 1)
						n = 1
					}
					rs := read(t, c, n)
					require.Equal(t, "after 0", string(rs[0].Value))
					require.Equal(t, int64(5), rs[0].Offset)
					require.EqualValues(t, 2, c.Stats().Resets, "at the start, and by the cut")
					b.write("more", 1)
					require.Equal(t, []string{fmt.Sprint("after ", n-1), "more 0"}, valuesOf(read(t, c, 2)))
					require.EqualValues(t, 2, c.Stats().Resets, "at the start, and by the cut")
					require.NoError(t, c.Close())
					if g != "" {
						require.Equal(t, record.Offsets{tp(0): 5 + int64(n)}, committed(t, b.Cluster, g), "the last record is not finished")
					}
				})
			})
		}
	}
}

func TestPollAndRunReadFromWhereTheLogDiverges(t *testing.T) {
	for _, run := range []bool{false, true} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			inTruncating(t, func(t *testing.T, b *truncating) {
				c := open(t, b.Cluster, consumer.Config{Topics: []string{"t"}})
				next := func() (values []string) {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if run {
						require.NoError(t, c.Run(ctx, func(_ context.Context, r record.Record) error {
							values = append(values, string(r.Value))
							return nil
						}, consumer.RunConfig{Workers: 1}))
						return values
					}
					for {
						batch, err := c.Poll(ctx)
						if err != nil {
							require.ErrorIs(t, err, context.DeadlineExceeded)
							return values
						}
						for r := range batch.All() {
							values = append(values, string(r.Value))
						}
					}
				}
				require.Len(t, next(), 5)
				b.alone()
				require.Len(t, next(), 5)
				b.elect(7)
				got := next()
				require.Len(t, got, 7)
				require.Equal(t, "after 0", got[0])
				require.EqualValues(t, 2, c.Stats().Resets, "at the start, and by the cut")
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestCutBelowThePositionIsReturnedIfResetIsFail(t *testing.T) {
	inTruncating(t, func(t *testing.T, b *truncating) {
		c := open(t, b.Cluster, consumer.Config{Assign: record.Offsets{tp(0): 0}, Reset: consumer.Fail()})
		read(t, c, 5)
		b.alone()
		read(t, c, 5)
		b.elect(12)
		_, err := c.Poll(t.Context())
		var cut *consumer.TruncatedError
		require.ErrorAs(t, err, &cut)
		require.ErrorIs(t, err, consumer.ErrTruncated)
		require.ErrorIs(t, err, consumer.ErrNoOffset)
		require.Equal(t, tp(0), cut.TopicPartition)
		require.Equal(t, []int64{8, 5}, []int64{cut.Offset, cut.EndOffset})
		require.NoError(t, c.Seek(tp(0), cut.EndOffset))
		require.Equal(t, "after 0", valuesOf(read(t, c, 12))[0])
		require.NoError(t, c.Close())
	})
}

// Records that were returned are lost: the sequence is not complete.
func TestReadAndFollowEndWithTheCut(t *testing.T) {
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			inTruncating(t, func(t *testing.T, b *truncating) {
				b.alone()
				n := 0
				var last error
				for _, err := range read(t.Context(), over(t, b.Cluster), consumer.ReadConfig{Topic: "t", MaxBytes: 1}) {
					last = err
					if n++; n == 8 { // MaxBytes: one batch, of one record, is held
						b.elect(12)
					}
				}
				var cut *consumer.TruncatedError
				require.ErrorAs(t, last, &cut)
				if wired.On(t) && cut.Offset == 9 { // the next batch was fetched ahead
					cut.Offset, n = cut.Offset-1, n-1
				}
				require.Equal(t, []int64{8, 5}, []int64{cut.Offset, cut.EndOffset})
				require.Equal(t, 9, n)
			})
		})
	}
}

// Clean elections, and records that are handed out again, are not taken for a cut.
func TestCleanElectionsAreNoCut(t *testing.T) {
	inTruncating(t, func(t *testing.T, b *truncating) {
		c := open(t, b.Cluster, consumer.Config{Group: "g", Topics: []string{"t"}})
		want := 5
		for i := range 6 {
			rs := read(t, c, want)
			require.Len(t, rs, want)
			require.NoError(t, b.StopBroker(t.Context(), int32(1+i%2)))
			b.write("a", 2)
			require.NoError(t, b.StartBroker(t.Context(), int32(1+i%2)))
			b.write("b", 1)
			time.Sleep(time.Minute)
			// the last record is handed out again: a loop that breaks has not finished it
			want = 3 + 1
		}
		require.EqualValues(t, 1, c.Stats().Resets, "at the start")
		require.NoError(t, c.Close())
	})
}

// A leader that changes costs a waiting reader no pause.
func TestNewLeaderIsReadWithoutAPause(t *testing.T) {
	inTruncating(t, func(t *testing.T, b *truncating) {
		var worst time.Duration
		m := poll(t, open(t, b.Cluster, consumer.Config{Topics: []string{"t"}, MaxWait: time.Hour}), func(r record.Record) {
			worst = max(worst, time.Since(r.Timestamp))
		})
		for i := range 4 {
			time.Sleep(time.Minute)
			require.NoError(t, errors.Join(b.StopBroker(t.Context(), int32(1+i%2))))
			b.write("a", 1)
			synctest.Wait()
			require.NoError(t, b.StartBroker(t.Context(), int32(1+i%2)))
			time.Sleep(time.Minute)
		}
		m.leave(t)
		if wired.On(t) {
			require.Less(t, worst, time.Second, "the client looks up the leader")
		} else {
			require.Zero(t, worst)
		}
		require.EqualValues(t, 9, m.Stats().Records)
	})
}

// The committed offset is beyond the cut, and the log has grown beyond it.
func TestMemberThatStartsAfterACutReadsFromWhereTheLogDiverges(t *testing.T) {
	inTruncating(t, func(t *testing.T, b *truncating) {
		b.moveTwice() // leader epoch 0 is not checked
		b.alone()
		c := open(t, b.Cluster, config(consumer.CommitManual))
		rs := read(t, c, 10)
		require.NoError(t, c.Commit(t.Context(), rs...))
		require.NoError(t, c.Close())
		b.elect(12)
		c = open(t, b.Cluster, config(consumer.CommitManual))
		rs = read(t, c, 12)
		require.Equal(t, "after 0", string(rs[0].Value))
		require.Equal(t, int64(5), rs[0].Offset)
		require.NoError(t, c.Close())
	})
}

// moveTwice lets broker 2 lead for a while.
func (c *truncating) moveTwice() {
	for id := range int32(2) {
		require.NoError(c.t, c.StopBroker(c.t.Context(), id+1))
		require.NoError(c.t, c.StartBroker(c.t.Context(), id+1))
		time.Sleep(time.Minute)
	}
}

// One fetch returns batches of several leader epochs. A periodic commit in the middle has an epoch
// that the records below it reach, and a position without records has none.
func TestCommitsHaveTheLeaderEpochOfTheirRecords(t *testing.T) {
	for _, run := range []bool{false, true} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			inTruncating(t, func(t *testing.T, b *truncating) {
				b.moveTwice()
				b.write("later", 5)
				epochOf := func() int32 {
					got, err := b.FetchOffsets(t.Context(), "g", nil)
					if err != nil {
						return -2
					}
					return got[tp(0)].LeaderEpoch
				}
				cfg := config(consumer.CommitProcessed)
				cfg.Reset = consumer.Latest()
				c := open(t, b.Cluster, cfg)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := c.Poll(ctx)
				require.Error(t, err)
				require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b.Cluster, "g"))
				require.EqualValues(t, -1, epochOf())
				require.NoError(t, c.SeekToStart())
				var want, got []int32 // in the later epoch
				check := func(r record.Record) {
					time.Sleep(2 * time.Second) // a commit
					if r.Offset > 6 {
						want, got = append(want, r.LeaderEpoch), append(got, epochOf())
					}
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if run {
					require.NoError(t, c.Run(ctx, func(_ context.Context, r record.Record) error { check(r); return nil }, consumer.RunConfig{Workers: 1}))
				} else {
					for r, err := range c.Records(ctx) {
						require.NoError(t, err)
						check(r)
					}
				}
				require.NoError(t, c.Close())
				require.Len(t, got, 3)
				require.Equal(t, want, got)
				require.Positive(t, got[0])
			})
		})
	}
}
