package kafkatest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// A client may wait long for an answer, as sarama does. Check must not report a transaction that
// such a client never had.
func TestCheckGivesEachStepItsTime(t *testing.T) {
	slow := func(ctx context.Context, s *Server, rs []record.Record) error {
		err := rightProducer(ctx, s, rs)
		time.Sleep(virtualWait + time.Second)
		return err
	}
	require.Empty(t, found(t, Code{Produce: slow}, "undisturbed"))
	var processed atomic.Int32
	require.Empty(t, found(t, Code{Consume: func(ctx context.Context, s *Server, process process) error {
		return rightConsumer(ctx, s, func(partition int32, offset int64) error {
			if n := processed.Add(1); n == 1 || n == 40 { // before and after a fault
				time.Sleep(virtualWait * 3 / 4)
			}
			return process(partition, offset)
		})
	}}, "undisturbed"))
	require.Equal(t, int32(60+leastChecked), processed.Load())
}

func TestCheckNamesCodeThatIsNotDone(t *testing.T) {
	stuck := func(ctx context.Context, _ *Server, _ []record.Record) error {
		<-ctx.Done()
		return ctx.Err()
	}
	text := found(t, Code{Produce: stuck}, "undisturbed")
	require.Contains(t, text, "Produce was not done after 10m0s (Config.WaitTimeout or the test's own deadline) and was ended: context deadline exceeded; lost 60 of 60")
	require.NotContains(t, text, "transaction")
	idle := func(ctx context.Context, _ *Server, _ process) error {
		<-ctx.Done()
		return ctx.Err()
	}
	require.Contains(t, found(t, Code{Consume: idle}, "undisturbed"), "Consume had not processed all after 10m0s (Config.WaitTimeout or the test's own deadline); lost 30 of 30")
}
