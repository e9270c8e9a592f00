package quota

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var begin = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return begin.Add(d) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// exceededAt returns when a quota is no longer exceeded, as time since begin, or 0 if it is not
// exceeded.
func exceededAt(q *Quota, now time.Duration, rate int64) time.Duration {
	room, until := q.Room(at(now), rate)
	if room > 0 {
		return 0
	}
	return until.Sub(begin)
}

func TestASecondsBytesGoAtOnceAndTheRestAtTheRate(t *testing.T) {
	var q Quota
	room, _ := q.Room(at(0), 1000)
	require.EqualValues(t, 1000, room)
	q.Record(at(0), 1000)
	require.Zero(t, exceededAt(&q, 0, 1000), "it is reached, not exceeded")
	q.Record(at(0), 500)
	require.Equal(t, seconds(1.5), exceededAt(&q, 0, 1000))
	require.Equal(t, seconds(1.5), exceededAt(&q, seconds(1.499999999), 1000))
	room, _ = q.Room(at(seconds(1.5)), 1000)
	require.EqualValues(t, 100, room, "a step: a tenth of a second's")
	room, _ = q.Room(at(seconds(3)), 1000)
	require.EqualValues(t, 1500, room, "what was not used since the oldest")
}

func TestAfterARestThereIsASecondsWorthAgain(t *testing.T) {
	var q Quota
	q.Record(at(0), 700)
	room, _ := q.Room(at(seconds(10.9)), 1000)
	require.EqualValues(t, 10_200, room)
	room, _ = q.Room(at(seconds(11)), 1000)
	require.EqualValues(t, 1000, room)
}

func TestWhatIsTooMuchIsForgottenAfterElevenSeconds(t *testing.T) {
	var q Quota
	q.Record(at(0), 1<<40)
	require.Equal(t, seconds(11), exceededAt(&q, seconds(5), 1))
	require.Zero(t, exceededAt(&q, seconds(11), 1))
	q.Record(at(seconds(20)), 1)
	require.Equal(t, seconds(31), exceededAt(&q, seconds(20), 0), "not even a byte at rate 0")
	room, _ := q.Room(at(seconds(31)), 0)
	require.EqualValues(t, 1, room)
}

// The oldest bytes may leave the window before they are made up for. The rest is judged by itself.
func TestWhatIsLeftIsJudgedWithoutWhatIsForgotten(t *testing.T) {
	var q Quota
	q.Record(at(0), 50_000)
	q.Record(at(seconds(4)), 7_500)
	require.Equal(t, seconds(11.5), exceededAt(&q, seconds(4), 1000), "7.5 s for what came at 4 s, when the rest is gone")
	q.Record(at(seconds(11)), 0)
	require.Equal(t, seconds(11.5), exceededAt(&q, seconds(11), 1000))
}

func TestHugeRatesDoNotOverflow(t *testing.T) {
	var q Quota
	room, _ := q.Room(at(0), math.MaxInt64)
	require.EqualValues(t, math.MaxInt64, room)
	q.Record(at(0), math.MaxInt64)
	q.Record(at(seconds(2)), 1<<30)
	require.Zero(t, exceededAt(&q, seconds(9), math.MaxInt64))
}

// naive is a Quota that has to be checked again and again.
type naive struct{ samples []sample }

func (n *naive) record(now time.Time, bytes int) {
	if last := len(n.samples) - 1; last < 0 || now.Sub(n.samples[last].start) >= Window {
		n.samples = append(n.samples, sample{start: now})
	}
	n.samples[len(n.samples)-1].bytes += int64(bytes)
}

func (n *naive) exceeded(now time.Time, rate int64) bool {
	var sum int64
	var oldest time.Time
	for _, s := range n.samples {
		if now.Sub(s.start) < Windows*Window {
			if oldest.IsZero() {
				oldest = s.start
			}
			sum += s.bytes
		}
	}
	return !oldest.IsZero() && sum*int64(time.Second) > rate*int64(max(now.Sub(oldest), Window))
}

// TestQuotaAgreesWithOneThatKeepsEverything compares at whole hundredths of a second, with numbers
// of bytes that make no fractions of these.
func TestQuotaAgreesWithOneThatKeepsEverything(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var q Quota
		var n naive
		now, rate := begin, 1000*(1+rnd.Int64N(5))
		for step := range 60 {
			now = now.Add(time.Duration(rnd.IntN(1+rnd.IntN(300))) * 10 * time.Millisecond)
			if bytes := int(rate/100) * rnd.IntN(1+rnd.IntN(400)); bytes > 0 {
				q.Record(now, bytes)
				n.record(now, bytes)
			}
			room, until := q.Room(now, rate)
			require.Equal(t, n.exceeded(now, rate), room == 0, "seed %d, step %d", seed, step)
			if room > 0 {
				continue
			}
			look := now
			for n.exceeded(look, rate) {
				look = look.Add(10 * time.Millisecond)
			}
			require.WithinDuration(t, look, until, time.Microsecond, "seed %d, step %d", seed, step)
		}
	}
}

// A caller that copies whenever there is room keeps the rate in the end. Its batches may have any
// size up to eleven seconds' worth.
func TestWhoGoesOnWhenThereIsRoomKeepsTheRate(t *testing.T) {
	for _, rate := range []int64{1000, 1 << 20, 50 << 20} {
		for _, batch := range []int64{1, 100, 5_000} {
			var q Quota
			now, copied, looks := begin, int64(0), 0
			for now.Before(at(time.Minute)) {
				looks++
				room, until := q.Room(now, rate)
				if room == 0 {
					require.True(t, until.After(now))
					now = until
					continue
				}
				n := max(room/batch, 1) * batch
				q.Record(now, int(n))
				copied += n
			}
			require.InEpsilon(t, 60*rate, copied, 0.12, "rate %d, batches of %d: a second's more, and a batch", rate, batch)
			require.Less(t, looks, 2*60*step+100, "rate %d, batches of %d", rate, batch)
		}
	}
}
