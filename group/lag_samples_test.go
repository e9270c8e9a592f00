package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// The group commits 100 records every 10 s, the first time after 5 s, and reads 2,000.
func TestDrainIsTheSameWhoeverElseCallsLags(t *testing.T) {
	tp := record.TopicPartition{Topic: "t"}
	for _, others := range []time.Duration{0, 100 * time.Millisecond, time.Second, 7 * time.Second} {
		t.Run(fmt.Sprintf("others call every %s", others), func(t *testing.T) {
			store := logs(map[string]int32{"t": 1})
			store.starts[tp], store.ends[tp] = 0, 2000
			inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
				drain := func() time.Duration {
					l, err := c.Lags(ctx)
					require.NoError(t, err)
					return l[0].Drain
				}
				commit(t, c, commitOf("g", record.Offsets{tp: 0}))
				begin := time.Now()
				require.Equal(t, DrainUnknown, drain(), "there is no rate in the first call")
				if others > 0 {
					ended := make(chan struct{})
					defer func() { <-ended }()
					go func() {
						defer close(ended)
						for time.Since(begin) < 5*time.Minute {
							time.Sleep(others)
							_, _ = c.Lags(ctx)
						}
					}()
				}
				time.Sleep(5 * time.Second)
				for at := int64(100); at <= 1000; at += 100 {
					commit(t, c, commitOf("g", record.Offsets{tp: at}))
					time.Sleep(10 * time.Second)
					if since := time.Since(begin); since > 30*time.Second {
						want := time.Duration(2000-at) * 100 * time.Millisecond
						require.InEpsilon(t, want, drain(), 0.2, "after %s", since)
					}
				}
				time.Sleep(time.Minute)
				require.Equal(t, DrainNever, drain(), "it has stopped")
			})
		})
	}
}

func TestDrainIsRightHoweverOftenLagsIsCalled(t *testing.T) {
	tp := record.TopicPartition{Topic: "t"}
	for _, every := range []time.Duration{time.Second, 30 * time.Second, 5 * time.Minute, time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			store := logs(map[string]int32{"t": 1})
			store.starts[tp], store.ends[tp] = 0, 1e6
			inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
				for i := range int64(100) { // a record a second
					at := i * int64(every/time.Second)
					commit(t, c, commitOf("g", record.Offsets{tp: at}))
					l, err := c.Lags(ctx)
					require.NoError(t, err)
					if time.Duration(i)*every < lagInterval {
						require.Equal(t, DrainUnknown, l[0].Drain)
					} else {
						require.InEpsilon(t, time.Duration(1e6-at)*time.Second, l[0].Drain, 1e-9)
					}
					require.LessOrEqual(t, len(c.lags["g"]), maxLagSamples)
					time.Sleep(every)
				}
			})
		})
	}
}

func TestSamplesOfGroupsThatNoCallListsAreDropped(t *testing.T) {
	m := make(lagSampler)
	begin := time.Now()
	at := func(after time.Duration, all bool, groups ...string) []string {
		var lags []GroupLag
		for _, g := range groups {
			lags = append(lags, GroupLag{Group: g, Lag: 5})
		}
		m.drains(begin.Add(after), lags, all)
		var kept []string
		for _, g := range []string{"a", "b"} {
			if len(m[g]) > 0 {
				kept = append(kept, g)
			}
		}
		return kept
	}
	require.Equal(t, []string{"a", "b"}, at(0, true, "a", "b"))
	require.Equal(t, []string{"a"}, at(time.Second, true, "a"), "b is deleted")
	require.Equal(t, []string{"a", "b"}, at(2*time.Second, false, "b"), "a may be at a broker that is down")
	require.Equal(t, []string{"a", "b"}, at(59*time.Minute, false, "b"))
	require.Equal(t, []string{"b"}, at(61*time.Minute, false, "b"), "for an hour no call listed a")
}
