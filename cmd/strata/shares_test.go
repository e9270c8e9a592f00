package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestShareGroupsAreDescribedResetAndDeleted(t *testing.T) {
	b := serveOrders(t, "a b c", "x")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, result{exitOK, "jobs: orders-0 is at 0\njobs: orders-1 is at 1\n", ""}, func() result {
		require.Equal(t, exitOK, run("topics", "delete-records", "orders", "--before", "1", "--partition", "1").code)
		return run("shares", "reset", "jobs", "--topic", "orders", "--to", "earliest")
	}())
	require.Equal(t, result{exitOK, "jobs: Empty\n", ""}, run("shares", "list"))
	require.Equal(t, result{exitOK, "jobs: Empty, 0 members\n  orders-0: start offset 0, lag 3\n  orders-1: start offset 1, lag 0\n", ""}, run("shares", "describe", "jobs"))

	c := client(t, b[1])
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.GroupID, join.MemberID, join.SubscribedTopicNames = "jobs", "0123456789abcdef012345", []string{"orders"}
	resp, err := join.RequestWith(t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, resp.ErrorCode)
	r := run("shares", "describe", "jobs", "--json")
	require.Contains(t, r.out, `"members":1}`)
	require.Contains(t, r.out, `{"type":"member","group":"jobs","member":"0123456789abcdef012345","clientId":"kgo"`)
	require.Contains(t, r.out, `"partitions":["orders-0","orders-1"]}`)
	for _, args := range [][]string{{"reset", "jobs", "--topic", "orders", "--to", "0"}, {"forget", "jobs", "--topic", "orders"}, {"delete", "jobs"}} {
		r := run(append([]string{"shares"}, args...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.err, "jobs: the group has members: stop them first")
	}
	leave := kmsg.NewPtrShareGroupHeartbeatRequest()
	leave.GroupID, leave.MemberID, leave.MemberEpoch = "jobs", join.MemberID, -1
	_, err = leave.RequestWith(t.Context(), c)
	require.NoError(t, err)

	require.Equal(t, result{exitOK, "forgot orders\n", ""}, run("shares", "forget", "jobs", "--topic", "orders"))
	require.Equal(t, "jobs: Empty, 0 members\n", run("shares", "describe", "jobs").out)
	require.Equal(t, exitOK, run("groups", "reset", "billing", "--topic", "orders", "--to", "0").code)
	require.Equal(t, result{exitFailed, "", "strata: billing, nobody: no such share group\n"}, run("shares", "delete", "jobs", "billing", "nobody"))
	require.Equal(t, result{exitOK, "deleted jobs\n", ""}, run("shares", "delete", "jobs"))
	require.Empty(t, run("shares", "list").out)
	require.Equal(t, result{exitFailed, "", "strata: jobs: no such share group\n"}, run("shares", "describe", "jobs"))
}
