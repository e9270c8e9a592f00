package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
)

func TestGroupThatCatchesUpInTimeIsTolerable(t *testing.T) {
	lags := []group.GroupLag{{Group: "fast", Lag: 50}, {Group: "slow", Lag: 90}, {Group: "stuck", Lag: 100}, {Group: "new", Lag: 100, Drain: group.DrainUnknown}}
	fillDrains([]group.GroupLag{{Group: "gone", Lag: 1}, {Group: "fast", Lag: 100}, {Group: "slow", Lag: 100}, {Group: "stuck", Lag: 100}}, lags, 10*time.Second)
	require.Equal(t, []group.GroupLag{
		{Group: "fast", Lag: 50, Drain: 10 * time.Second}, {Group: "slow", Lag: 90, Drain: 90 * time.Second},
		{Group: "stuck", Lag: 100, Drain: group.DrainNever}, {Group: "new", Lag: 100, Drain: group.DrainUnknown},
	}, lags)
	var out bytes.Buffer
	a := &app{w: newWriter(&out)}
	require.ErrorIs(t, a.emitLags(lags, group.LagLimit{Drain: time.Minute}, true), errSilent)
	require.NoError(t, a.w.Flush())
	require.Equal(t, "group slow: lag 90 is more than 0 and takes 1m30s to catch up with, longer than 1m0s, 0 members\n"+
		"group stuck: lag 100 is more than 0 and does not shrink, 0 members\n", out.String())
	require.NoError(t, a.emitLags(lags[:1], group.LagLimit{Drain: time.Minute}, true))
}
