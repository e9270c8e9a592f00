package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

// talking are the commands that send requests to brokers. Each has arguments for topic orders,
// group billing, share group jobs and user alice.
var talking = []string{
	"cluster", "top --count 1 --interval 1ms",
	"topics list", "topics create new", "topics describe orders", "topics alter orders --set retention.ms=7000", "topics add-partitions orders --total 9",
	"topics delete orders", "topics offsets orders", "topics delete-records orders --before 1", "topics advise orders",
	"groups list", "groups describe billing", "groups lag", "groups lag --max-drain 1h --interval 1ms", "groups alter billing --set consumer.heartbeat.interval.ms=6000",
	"groups reset billing --topic orders --to 1", "groups delete billing",
	"shares list", "shares describe jobs", "shares reset jobs --topic orders --to 0", "shares forget jobs --topic orders", "shares delete jobs",
	"transactions list", "transactions describe t", "transactions find-hanging", "transactions abort --topic orders --partition 0 --start-offset 0",
	"acls list", "acls add --type group --name g --principal User:alice --operation read", "acls remove --all",
	"users list", "users set alice", "users remove alice",
	"quotas list", "quotas set --for-client-id app producer_byte_rate=1e9", "quotas remove --for-client-id app",
	"produce orders a b", "produce orders --partition 0 a", "produce orders --partition 1 a",
	"consume orders", "consume orders --last 1", "consume orders --from 2026-01-31T12:00:00Z", "consume orders --max 1 --partition 1", "consume orders --max 9 --group other",
}

// A mute broker serves a given number of requests. It reads further requests without an answer.
type mute struct{ left atomic.Int64 }

func (m *mute) Before(*kafka.Exchange) kafka.Action {
	return kafka.Action{DropRequest: m.left.Add(-1) < 0}
}

func (m *mute) After(*kafka.Exchange) {}

// runFor runs a command, and returns an error if it has not ended within limit.
func runFor(ctx context.Context, limit time.Duration, args ...string) (r result, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var out, errs bytes.Buffer
		r.code = run(ctx, args, streams{strings.NewReader("pw\n"), &out, &errs})
		r.out, r.err = out.String(), errs.String()
	}()
	select {
	case <-ended:
		return r, nil
	case <-time.After(limit):
		return result{}, errors.New("it has not ended")
	}
}

// A command returns about --timeout after the broker has stopped answering, whichever answer is
// missing.
func TestEveryCommandReturnsWhenABrokerIsSilent(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	chosen := sample.Fewer(t, 6)
	for i, line := range talking {
		for j, answered := range []int64{2, 3, 4, 8} {
			if !chosen(4*i + j) {
				continue
			}
			m := &mute{}
			s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 2}, Intercept: m})
			s.Fill("orders", record.String("", "k", "a"), record.String("", "l", "b"), record.String("", "m", "c"))
			m.left.Store(answered)
			all.Go(func() {
				args := append(strings.Fields(line), "-b", s.Addrs()[0], "--timeout", "200ms")
				r, err := runFor(t.Context(), 10*time.Second, args...)
				if err != nil || m.left.Load() < 0 && r.code != exitFailed || r.code == exitMisuse {
					t.Errorf("%s, silent after %d answers: %v, exit code %d, %s%s", line, answered, err, r.code, r.out, r.err)
				}
			})
		}
	}
	all.Wait()
}

func TestEveryCommandReturnsWhenPartitionsAreOffline(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	chosen := sample.Fewer(t, 4)
	for i, line := range talking {
		if !chosen(i) {
			continue
		}
		s := kafkatest.New(t, kafkatest.Config{Brokers: 2, Topics: map[string]int{"orders": 2}})
		s.Fill("orders", record.String("", "k", "a"), record.String("", "l", "b"))
		s.StopBroker(2)
		all.Go(func() {
			timeout := "500ms"
			// Long enough to connect beside the others.
			if line == "produce orders --partition 1 a" {
				timeout = "10s"
			}
			args := append(strings.Fields(line), "-b", s.Addrs()[0], "--timeout", timeout)
			r, err := runFor(t.Context(), 30*time.Second, args...)
			if err != nil || r.code == exitMisuse {
				t.Errorf("%s: %v, exit code %d, %s%s", line, err, r.code, r.out, r.err)
			}
			if offline := "orders-1: LEADER_NOT_AVAILABLE"; line == "produce orders --partition 1 a" && !strings.Contains(r.err, offline) {
				t.Errorf("%s: %s, not %s", line, r.err, offline)
			}
		})
	}
	all.Wait()
}
