package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
)

// modernMember joins a group of KIP-848's protocol, and returns once it has all partitions of a
// topic.
func modernMember(t *testing.T, addr, group, topic string, partitions int) {
	t.Helper()
	c := client(t, addr)
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.SubscribedTopicNames, req.RebalanceTimeoutMillis = group, "member-1", []string{topic}, 60_000
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	require.Eventually(t, func() bool {
		resp, err := req.RequestWith(t.Context(), c)
		require.NoError(t, err)
		require.Zero(t, resp.ErrorCode)
		if resp.Assignment != nil && len(resp.Assignment.Topics) == 1 && len(resp.Assignment.Topics[0].Partitions) == partitions {
			return true
		}
		req.MemberEpoch, req.SubscribedTopicNames, req.RebalanceTimeoutMillis, req.Topics = resp.MemberEpoch, nil, -1, nil
		return false
	}, time.Minute, 10*time.Millisecond)
}

func TestGroupsOfEitherProtocolAreSeen(t *testing.T) {
	b := serveOrders(t, "a b c", "x y")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("groups", "reset", "modern", "--topic", "orders", "--to", "1").code)
	require.Equal(t, exitOK, run("groups", "reset", "classic", "--topic", "orders", "--to", "2").code)
	require.Equal(t, exitOK, run("shares", "reset", "jobs", "--topic", "orders", "--to", "1").code)
	modernMember(t, b[1], "modern", "orders", 2)

	require.Equal(t, result{exitOK, "classic: lag 1, 0 members\nmodern: lag 3, 1 members\n", ""}, run("groups", "lag"))
	require.Equal(t, result{exitOK, "modern: lag 3, 1 members\n", ""}, run("groups", "lag", "modern"))
	r := run("groups", "lag", "--max-records", "2")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "group modern: lag 3 is more than 2, 1 members\n", r.out)
	r = run("groups", "describe", "modern", "classic")
	require.Equal(t, exitOK, r.code, r.err)
	require.Regexp(t, `^classic: Empty, 0 members, lag 1\n  orders-0: committed 2 of 3, lag 1\n  orders-1: committed 2 of 2, lag 0\n`+
		`modern: (Stable|Reconciling), 1 members \(uniform\), lag 3\n  member member-1 \(kgo at \S+\): orders-0 orders-1\n`+
		`  orders-0: committed 1 of 3, lag 2, read by member-1\n  orders-1: committed 1 of 2, lag 1, read by member-1\n$`, r.out)
	r = run("groups", "reset", "modern", "--topic", "orders", "--to", "earliest")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "modern, orders-0: the group has 1 members")
	for _, name := range []string{"nobody", "jobs"} { // no group, no group of consumers
		require.Equal(t, result{exitFailed, "", "strata: " + name + ": no such consumer group\n"}, run("groups", "describe", name))
	}
}

// streamsMembers joins members to a streams group that reads a topic and has a state store. It
// returns once each member owns its assigned tasks: so many active and so many standby tasks.
func streamsMembers(t *testing.T, addr, group, topic string, active, standby int, members ...string) {
	t.Helper()
	c := client(t, addr)
	found := kadm.NewClient(c).FindGroupCoordinators(t.Context(), group)[group]
	require.NoError(t, found.Err)
	reqs := map[string]*kmsg.StreamsGroupHeartbeatRequest{}
	for _, m := range members {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.ProcessID, req.RebalanceTimeoutMillis = group, m, kmsg.StringPtr("of "+m), 60_000
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{{
			SubtopologyID: "0", SourceTopics: []string{topic}, StateChangelogTopics: []kmsg.TopicInfo{{Topic: group + "-counts"}},
		}}}
		reqs[m] = req
	}
	require.Eventually(t, func() bool {
		done := true
		for _, m := range members {
			req := reqs[m]
			kresp, err := c.Broker(int(found.NodeID)).Request(t.Context(), req)
			require.NoError(t, err)
			resp := kresp.(*kmsg.StreamsGroupHeartbeatResponse)
			require.Zero(t, resp.ErrorCode, resp.ErrorMessage)
			req.MemberEpoch, req.RebalanceTimeoutMillis, req.Topology = resp.MemberEpoch, -1, nil
			told := resp.ActiveTasks != nil
			if told {
				req.ActiveTasks, req.StandbyTasks = resp.ActiveTasks, resp.StandbyTasks
			}
			done = done && !told && partitionsOf(req.ActiveTasks) == active && partitionsOf(req.StandbyTasks) == standby
		}
		return done
	}, time.Minute, 10*time.Millisecond)
}

func partitionsOf(tasks []kmsg.TaskIDs) (n int) {
	for _, t := range tasks {
		n += len(t.Partitions)
	}
	return n
}

func TestGroupsOfStreamsAreSeen(t *testing.T) {
	p := start(t, "--memory", "--brokers", "3", "--set", "group.streams.initial.rebalance.delay.ms=0", "--set", "group.streams.min.assignment.interval.ms=0",
		"--set", "group.streams.assignment.interval.ms=0", "--set", "group.streams.num.standby.replicas=1")
	run := func(args ...string) result { return command(t, "", append(args, "-b", p.addr)...) }
	require.Equal(t, exitOK, run("topics", "create", "in", "--partitions", "2").code)
	require.Equal(t, exitOK, run("produce", "in", "--partition", "0", "a", "b", "c").code)
	require.Equal(t, exitOK, run("produce", "in", "--partition", "1", "x").code)
	require.Equal(t, exitOK, run("groups", "reset", "app", "--topic", "in", "--to", "1").code)
	streamsMembers(t, p.addr, "app", "in", 1, 1, "one", "two")
	streamsMembers(t, p.addr, "vain", "gone", 0, 0, "three")

	require.Equal(t, result{exitOK, "app: lag 2, 2 members\nvain: lag 0, 1 members\n", ""}, run("groups", "lag"))
	r := run("groups", "describe", "vain", "app")
	require.Equal(t, exitOK, r.code, r.err)
	has := `(in-0 \(standby for 0_1\)|in-1 \(standby for 0_0\))\n`
	require.Regexp(t, `^app: Stable, 2 members, lag 2\n  member one \(kgo at \S+\): `+has+`  member two \(kgo at \S+\): `+has+
		`  in-0: committed 1 of 3, lag 2, read by (one|two)\n  in-1: committed 1 of 1, lag 0, read by (one|two)\n`+
		`vain: NotReady, 1 members, lag 0\n  member three \(kgo at \S+\): \n$`, r.out)
	r = run("groups", "reset", "app", "--topic", "in", "--to", "earliest")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "app, in-0: the group has 2 members")
	r = run("top", "--interval", "20ms", "--count", "1")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "group app: lag 2, 0.0 offsets/s, Stable, 2 members\n")
}

// shown returns the lines of one page, by the type and name of their subject.
func shown(t *testing.T, out string) map[string]map[string]any {
	t.Helper()
	lines := map[string]map[string]any{}
	for text := range strings.Lines(out) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		lines[l["type"].(string)+" "+l[l["type"].(string)].(string)] = l
	}
	return lines
}

func TestTopShowsTopicsAndGroupsOfAllKinds(t *testing.T) {
	b := serveOrders(t, "a b c", "x y")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("groups", "reset", "modern", "--topic", "orders", "--to", "0").code)
	require.Equal(t, exitOK, run("groups", "reset", "classic", "--topic", "orders", "--to", "2").code)
	require.Equal(t, exitOK, run("shares", "reset", "jobs", "--topic", "orders", "--to", "1").code)
	modernMember(t, b[1], "modern", "orders", 2)
	r := run("top", "--interval", "20ms", "--count", "1")
	require.Equal(t, exitOK, r.code, r.err)
	require.Regexp(t, `^\S+Z topic orders: 0.0 offsets/s, 5 offsets in 2 partitions\n`+
		`\S+Z group modern: lag 5, 0.0 offsets/s, \w+, 1 members\n`+
		`\S+Z share group jobs: lag 3, 0.0 offsets/s, Empty, 0 members\n`+
		`\S+Z group classic: lag 1, 0.0 offsets/s, Empty, 0 members\n$`, r.out)
	lines := shown(t, run("top", "--interval", "20ms", "--count", "1", "--json").out)
	require.Len(t, lines, 4)
	require.Equal(t, true, lines["group jobs"]["share"])
	require.EqualValues(t, 5, lines["group modern"]["lag"])
	require.EqualValues(t, 5, lines["topic orders"]["offsets"])
	for _, args := range [][]string{{"--interval", "0s"}, {"--count", "-1"}, {"--rows", "-1"}, {"extra"}} {
		require.Equal(t, exitMisuse, run(append([]string{"top"}, args...)...).code, args)
	}
}

func TestTopTellsOnceOfLooksThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		a := &app{streams: streams{nil, &out, &errs}, w: newWriter(&out)}
		n := 0
		err := a.top(t.Context(), topOptions{interval: time.Second, count: 2}, func(context.Context) (*look, error) {
			if n++; n == 2 || n == 3 || n == 5 {
				return nil, fmt.Errorf("look %d", n)
			}
			return &look{at: time.Now(), topics: map[string]map[int32][2]int64{"orders": {0: {0, 100 * int64(n)}}}}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 6, n)
		require.Equal(t, "strata: look 2; trying again\nstrata: look 5; trying again\n", errs.String())
		// Since the last look that succeeded.
		require.Regexp(t, `^\S+ topic orders: 100.0 offsets/s, 400 .*\n\S+ topic orders: 100.0 offsets/s, 600 .*\n$`, out.String())
	})
}

func TestTopGoesOnWhenABrokerGoesAndComes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "one", "-b", p.addr).code)
	f := follow(t, "top", "--interval", "20ms", "-b", p.addr)
	require.Contains(t, f.line(), "topic orders: 0.0 offsets/s, 1 offsets in 1 partitions")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Eventually(t, func() bool { return strings.Contains(f.stderr(), "no broker at "+p.addr) }, time.Minute, 10*time.Millisecond)
	again := start(t, "--dir", dir, "--listen", p.addr)
	require.Equal(t, p.addr, again.addr)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "two", "-b", p.addr).code)
	for !strings.Contains(f.line(), "2 offsets") {
	}
	_, err := f.signalled(syscall.SIGTERM)
	require.NoError(t, err, f.stderr())
	require.Contains(t, f.stderr(), "the broker at "+p.addr+" is back")
	require.Equal(t, 1, strings.Count(f.stderr(), "no broker at"), f.stderr())
}

func TestRatesOfTopAreByTheTimeBetweenLooks(t *testing.T) {
	at := time.Unix(0, 0)
	p := func(topic string, n int32) partitionOf { return partitionOf{topic, n} }
	before := &look{at: at, topics: map[string]map[int32][2]int64{"a": {0: {0, 10}, 1: {0, 10}}, "again": {0: {0, 100}}},
		groups: []groupPart{{topGroupLine{Group: "g", Lag: 30}, map[partitionOf]int64{p("a", 0): 5}}, {topGroupLine{Group: "back"}, map[partitionOf]int64{p("a", 0): 9}}}}
	now := &look{at: at.Add(4 * time.Second), errs: map[string]string{"a": "1: away"},
		topics: map[string]map[int32][2]int64{"a": {0: {2, 12}, 2: {0, 1000}}, "again": {0: {0, 7}}, "new": {0: {0, 9}}},
		groups: []groupPart{{topGroupLine{Group: "new", Lag: 50}, nil}, {topGroupLine{Group: "g", Lag: 20}, map[partitionOf]int64{p("a", 0): 10, p("a", 1): 900}},
			{topGroupLine{Group: "back", Lag: 8}, map[partitionOf]int64{p("a", 0): 1}}}}
	f := now.since(before)
	text := func(l line) string {
		var s strings.Builder
		l.writeText(&s)
		return strings.TrimPrefix(s.String(), "1970-01-01T00:00:04.000Z ")
	}
	var got []string
	for _, l := range f.topics {
		got = append(got, text(l))
	}
	for _, l := range f.groups {
		got = append(got, text(l))
	}
	require.Equal(t, []string{
		// Two in four seconds; offsets that became known have no rate.
		"topic a: 0.5 offsets/s, 1010 offsets in 2 partitions, 1: away\n",
		"topic again: 0.0 offsets/s, 7 offsets in 1 partitions\n",
		"topic new: - offsets/s, 9 offsets in 1 partitions\n",
		"group new: lag 50, - offsets/s, , 0 members\n",
		"group g: lag 20, 1.3 offsets/s, , 0 members, caught up in 8s\n",
		"group back: lag 8, -2.0 offsets/s, , 0 members\n",
	}, got)
}
