package producer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

func TestAnswerOfTheFormerTopicDoesNotVouchForTheNewLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		f.recreate("a", 1)
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			switch n {
			case 1: // is answered after the topic was created again
				return fate{delay: time.Second}
			case 2:
				// the first batch for the new log: a second one in flight would overtake it
				return fate{err: partition.ErrNotLeader, delay: time.Millisecond}
			}
			return fate{}
		}
		p := newProducer(t, f, Config{BatchBytes: 1}) // one record a batch
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		for i := 1; i < 7; i++ {
			p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) { require.NoError(t, err, i) })
			if i == 1 {
				synctest.Wait() // it is with the backend
				f.recreate("a", 1)
				synctest.Wait()
			}
		}
		require.NoError(t, p.Flush(t.Context()))
		require.Equal(t, numbers(2, 7), f.values("a", 0))
		require.Zero(t, p.Stats().EpochBumps)
		require.NoError(t, p.Close())
	})
}

func TestBatchUnderWayWhenItsTopicIsDeletedIsNotTriedAgain(t *testing.T) {
	for name, answer := range map[string]error{
		"deleted": replication.ErrUnknownTopic, "closed": partition.ErrClosed, "gap": partition.ErrOutOfOrderSequence, "large": partition.ErrRecordTooLarge,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 1})
				f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
					if n == 1 {
						return fate{err: answer, delay: time.Second}
					}
					return fate{}
				}
				p := newProducer(t, f, Config{})
				_, err := p.Send(t.Context(), value("a", 0), value("a", 1))
				require.NoError(t, err)
				time.AfterFunc(time.Millisecond, func() { f.change(func() { delete(f.topics, "a") }) })
				begun := time.Now()
				_, err = p.Send(t.Context(), value("a", 2), value("a", 3))
				require.ErrorIs(t, err, ErrUnknownTopic)
				require.Equal(t, time.Second, time.Since(begun), "when the backend has answered")
				require.Len(t, f.headers(), 2)

				f.recreate("a", 1)
				_, err = p.Send(t.Context(), value("a", 4))
				require.NoError(t, err)
				require.Equal(t, numbers(4, 5), f.values("a", 0))
				require.Equal(t, time.Second, time.Since(begun))
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestBatchWrittenBeforeItsTopicWasDeletedIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Second} }
		p := newProducer(t, f, Config{})
		time.AfterFunc(time.Millisecond, func() { f.change(func() { delete(f.topics, "a") }) })
		acks, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		require.Zero(t, acks[0].Offset)
		require.NoError(t, p.Close())
	})
}

func TestRecordsWaitForATopicThatMayComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		f.recreate("a", 2)
		p := newProducer(t, f, Config{AllowUnknownTopics: true, DeliveryTimeout: time.Minute})
		_, err := p.Send(t.Context(), value("a", 0).To(1))
		require.NoError(t, err)

		f.change(func() { delete(f.topics, "a") })
		time.AfterFunc(10*time.Second, func() { f.recreate("a", 2) })
		begun := time.Now()
		_, err = p.Send(t.Context(), value("a", 1).To(1))
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, time.Since(begun), "told, not polled")
		require.Equal(t, numbers(1, 2), f.values("a", 1))

		f.change(func() { delete(f.topics, "a") })
		time.AfterFunc(10*time.Second, func() { f.recreate("a", 1) })
		begun = time.Now()
		_, err = p.Send(t.Context(), value("a", 2).To(1))
		var recreated *RecreatedError
		require.ErrorAs(t, err, &recreated)
		require.Equal(t, &RecreatedError{Topic: "a", Before: 2, After: 1}, recreated)
		require.Equal(t, 10*time.Second, time.Since(begun))
		require.Empty(t, f.values("a", 0))

		f.change(func() { delete(f.topics, "a") })
		_, err = p.Send(t.Context(), value("a", 3).To(0))
		require.ErrorIs(t, err, ErrTimeout)
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.Equal(t, 70*time.Second, time.Since(begun))
		require.NoError(t, p.Close())
	})
}

func TestBackendThatIsNotSureOfATopicIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		p := newProducer(t, unsure{f}, Config{})
		time.AfterFunc(time.Second, func() { f.grow("a", 1) })
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		require.NoError(t, p.Close())
	})
}

func TestNewLogGetsBatchesInOrderWhateverBecameOfThemInTheFormerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(nil)
		f.recreate("a", 1)
		f.script = func(n int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			switch n {
			case 1: // fails for good and leaves a gap: the sequence must restart
				return fate{err: errors.New("disk full"), delay: time.Second}
			case 2: // was not written
				return fate{err: partition.ErrNotLeader, delay: time.Second}
			case 3: // unknown: in the same log it would be sent first, with its old numbers
				return fate{replyLost: true, delay: time.Second}
			}
			return fate{}
		}
		p := newProducer(t, f, Config{BatchBytes: 1, RetryBackoff: time.Hour, DeliveryTimeout: 3 * time.Hour})
		_, err := p.Send(t.Context(), value("a", 0))
		require.NoError(t, err)
		var errs [4]error
		for i := 1; i < 4; i++ {
			p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) { errs[i] = err })
		}
		time.Sleep(2 * time.Second)
		f.recreate("a", 1)
		require.NoError(t, p.Flush(t.Context()))
		require.Error(t, errs[1])
		require.NoError(t, errs[2])
		require.NoError(t, errs[3])
		require.Equal(t, numbers(2, 4), f.values("a", 0))
		require.NoError(t, p.Close())
	})
}

// highest is a partitioner that selects the highest partition.
type highest struct{}

func (highest) Partition(_ record.Record, n int) int { return n - 1 }

func TestRecordPlacedBeforeTheTopicChangedIsPlacedAgain(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"created again": func(f *fake) { f.recreate("a", 4) },
		"grown":         func(f *fake) { f.grow("a", 4) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 2, "b": 1})
				f.script = func(_ int, req *partition.ProduceRequest, _ *record.Batch) fate {
					if req.TopicPartition.Topic == "b" {
						return fate{delay: time.Second}
					}
					return fate{}
				}
				p := newProducer(t, f, Config{MaxBufferedBytes: 1000, Partitioner: highest{}})
				_, err := p.Send(t.Context(), value("a", 0))
				require.NoError(t, err)
				p.SendAsync(t.Context(), record.String("b", "", strings.Repeat("x", 900)), nil)
				time.AfterFunc(time.Millisecond, func() { change(f) })
				// waits for memory; the topic changes meanwhile
				acks, err := p.Send(t.Context(), record.String("a", "k", strings.Repeat("y", 500)))
				require.NoError(t, err)
				require.Equal(t, int32(3), acks[0].Partition)
				require.Len(t, f.values("a", 3), 1)
				require.NoError(t, p.Close())
			})
		})
	}
}
