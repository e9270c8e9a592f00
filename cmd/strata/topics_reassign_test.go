package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestReassignSpreadsNewReplicasOverBrokersAndRacks(t *testing.T) {
	b := []string{"-b", start(t, "--memory", "--brokers", "4", "--rack", "a,a,b,c").addr}
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("topics", "create", "orders", "--partitions", "6", "--replication-factor", "1").code)
	require.Equal(t, exitOK, run("topics", "create", "other", "--partitions", "2", "--replication-factor", "1").code)
	for i := range 6 {
		require.Equal(t, exitOK, run("produce", "orders", fmt.Sprint("value", i), "--partition", fmt.Sprint(i)).code)
	}
	before := run("topics", "describe").out

	r := run("topics", "reassign", "orders", "--replicas", "3", "--dry-run")
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, 6, strings.Count(r.out, " become "), r.out)
	require.True(t, strings.HasSuffix(r.out, "\n6 partitions to reassign, nothing is changed\n"), r.out)
	require.Equal(t, before, run("topics", "describe").out)

	plan := strings.TrimSuffix(r.out, "6 partitions to reassign, nothing is changed\n")
	r = run("topics", "reassign", "orders", "--replicas", "3")
	require.Equal(t, result{exitOK, plan + "6 partitions reassigned\n", ""}, r)
	described := run("topics", "describe", "orders").out
	racks := map[byte]byte{'1': 'a', '2': 'a', '3': 'b', '4': 'c'}
	load, leads := map[byte]int{}, map[byte]int{}
	for line := range strings.Lines(described) {
		_, list, found := strings.Cut(line, "replicas [")
		if !found {
			continue
		}
		ids := []byte{list[0], list[2], list[4]}
		seen := map[byte]bool{}
		for _, id := range ids {
			load[id]++
			seen[racks[id]] = true
		}
		require.Len(t, seen, 3, "racks of %s", line)
		_, leader, _ := strings.Cut(line, "leader ")
		require.Equal(t, ids[0], leader[0], "the preferred leader leads: %s", line)
		leads[leader[0]]++
		require.NotContains(t, line, "in sync [1]\n")
	}
	require.Equal(t, 6, load['3'], "the only broker of rack b")
	require.Equal(t, 6, load['4'], "the only broker of rack c")
	require.Equal(t, []int{3, 3}, []int{load['1'], load['2']})
	for id, n := range leads {
		require.LessOrEqual(t, n, 2, "broker %c leads", id)
	}
	require.Equal(t, 6, strings.Count(run("consume", "orders", "--values").out, "value"))
	require.Equal(t, 2, strings.Count(run("topics", "describe", "other").out, "in sync ["), "the other topic is as it was")

	require.Equal(t, result{exitOK, "0 partitions reassigned\n", ""}, run("topics", "reassign", "orders", "--replicas", "3"))
	r = run("topics", "reassign", "orders", "--replicas", "1", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, `{"type":"reassigned","partitions":6,"dryRun":false}`)
	require.Regexp(t, `"before":\[\d,\d,\d\],"after":\[\d\]`, r.out)
}

func TestReassignRefusesMoreReplicasThanLiveBrokers(t *testing.T) {
	b := []string{"-b", start(t, "--memory", "--brokers", "2").addr}
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("topics", "create", "orders", "--replication-factor", "1").code)
	r := run("topics", "reassign", "--replicas", "3")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "--replicas 3: the cluster has 2 live brokers: INVALID_REPLICATION_FACTOR")
	require.Empty(t, r.out)
	for _, n := range []string{"0", "-1", "32768"} {
		r = run("topics", "reassign", "--replicas", n)
		require.Equal(t, exitMisuse, r.code)
		require.Contains(t, r.err, "--replicas "+n)
	}
	require.Equal(t, exitMisuse, run("topics", "reassign").code)
	require.Equal(t, exitMisuse, run("topics", "reassign", "orders", "--replicas", "1", "--internal").code)
	r = run("topics", "reassign", "nope", "--replicas", "1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "nope: ")
}

func TestReassignIncludesInternalTopicsOnRequest(t *testing.T) {
	b := []string{"-b", start(t, "--memory", "--brokers", "2", "--set", "offsets.topic.num.partitions=3", "--set", "offsets.topic.replication.factor=1").addr}
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("produce", "orders", "x").code)
	require.Equal(t, exitOK, run("groups", "reset", "billing", "--topic", "orders", "--to", "latest").code)
	require.NotContains(t, run("topics", "reassign", "--replicas", "2", "--dry-run").out, "__consumer_offsets")
	r := run("topics", "reassign", "--replicas", "2", "--internal")
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, 3, strings.Count(r.out, "__consumer_offsets-"), r.out)
	r = run("topics", "describe", "__consumer_offsets")
	require.Equal(t, 3, strings.Count(r.out, "in sync [1 2]")+strings.Count(r.out, "in sync [2 1]"), r.out)
	require.Contains(t, run("groups", "describe", "billing").out, "orders-0: committed 1 of 1, lag 0")
}

func TestReassignOfManyPartitionsGoesInBatches(t *testing.T) {
	b := []string{"-b", start(t, "--memory", "--brokers", "2").addr}
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, exitOK, run("topics", "create", "orders", "--partitions", fmt.Sprint(reassignBatch+1), "--replication-factor", "1").code)
	r := run("topics", "reassign", "orders", "--replicas", "2")
	require.Equal(t, exitOK, r.code, r.err)
	require.True(t, strings.HasSuffix(r.out, fmt.Sprintf("\n%d partitions reassigned\n", reassignBatch+1)))
	described := run("topics", "describe", "orders").out
	require.Equal(t, reassignBatch+1, strings.Count(described, "in sync [1 2]")+strings.Count(described, "in sync [2 1]"))
}

// slowReassign starts two brokers with topics of one replica that are copied at a byte a second,
// and begins to add a replica to each. It returns the leaders.
func slowReassign(t *testing.T, topics ...string) (p *process, admin *kadm.Client, leaders map[string]int32) {
	t.Helper()
	p = start(t, "--memory", "--brokers", "2")
	lines := strings.Repeat(strings.Repeat("x", 900_000)+"\n", 30) // more than one fetch of a follower
	for _, name := range topics {
		require.Equal(t, exitOK, command(t, "", "topics", "create", name, "--replication-factor", "1", "--set", "follower.replication.throttled.replicas=*", "--set", "leader.replication.throttled.replicas=*", "-b", p.addr).code)
		require.Equal(t, exitOK, command(t, lines, "produce", name, "-b", p.addr).code)
	}
	admin = kadm.NewClient(client(t, p.addr))
	one := "1" // byte per second: the copy does not end
	rs, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "leader.replication.throttled.rate", Value: &one}, {Op: kadm.SetConfig, Name: "follower.replication.throttled.rate", Value: &one}})
	require.NoError(t, err)
	for _, r := range rs {
		require.NoError(t, r.Err)
	}
	described, err := admin.ListTopics(t.Context(), topics...)
	require.NoError(t, err)
	leaders = map[string]int32{}
	for _, name := range topics {
		leaders[name] = described[name].Partitions[0].Leader
	}
	return p, admin, leaders
}

// addReplicas begins to add a replica to each topic.
func addReplicas(t *testing.T, admin *kadm.Client, leaders map[string]int32) {
	t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	for name, leader := range leaders {
		req.Assign(name, 0, []int32{leader, 3 - leader})
	}
	started, err := admin.AlterPartitionAssignments(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, started.Error())
}

func TestReassignRefusesPartitionsThatAreBeingReassigned(t *testing.T) {
	p, admin, leaders := slowReassign(t, "orders")
	addReplicas(t, admin, leaders)
	r := command(t, "", "topics", "reassign", "orders", "--replicas", "1", "-b", p.addr)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, fmt.Sprintf("orders-0: replicas %d are being added: REASSIGNMENT_IN_PROGRESS", 3-leaders["orders"]))
	require.Empty(t, r.out)
}

func TestReassignmentsInProgressAreCancelled(t *testing.T) {
	p, admin, leaders := slowReassign(t, "orders", "payments")
	run := func(args ...string) result {
		return command(t, "", append([]string{"topics", "reassign", "-b", p.addr}, args...)...)
	}
	require.Equal(t, result{exitOK, "0 reassignments cancelled\n", ""}, run("--cancel"))
	addReplicas(t, admin, leaders)
	back := func(name string) string {
		return fmt.Sprintf("%s-0: replicas %d,%d become %d\n", name, leaders[name], 3-leaders[name], leaders[name])
	}
	require.Equal(t, result{exitOK, back("orders") + back("payments") + "2 reassignments to cancel, nothing is changed\n", ""}, run("--cancel", "--dry-run"))
	require.Equal(t, result{exitOK, back("orders") + "1 reassignments cancelled\n", ""}, run("--cancel", "orders"))
	var set kadm.TopicsSet
	set.Add("orders", 0)
	set.Add("payments", 0)
	left, err := admin.ListPartitionReassignments(t.Context(), set)
	require.NoError(t, err)
	require.Len(t, left.Sorted(), 1)
	require.Equal(t, result{exitOK, back("payments") + "1 reassignments cancelled\n", ""}, run("--cancel"))
	require.Contains(t, command(t, "", "topics", "describe", "orders", "-b", p.addr).out, fmt.Sprintf("replicas [%d]", leaders["orders"]))
	require.Equal(t, result{exitOK, "0 partitions reassigned\n", ""}, run("--replicas", "1"))

	require.Equal(t, exitMisuse, run("--cancel", "--replicas", "1").code)
	require.Equal(t, exitMisuse, run("--cancel", "orders", "--internal").code)
	r := run("--cancel", "nope")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "nope: ")
}

func TestReassignNamesATopicThatWasDeletedMeanwhile(t *testing.T) {
	p, admin, _ := slowReassign(t, "orders", "payments")
	ended := make(chan result, 1)
	go func() {
		ended <- command(t, "", "topics", "reassign", "orders", "payments", "--replicas", "2", "-b", p.addr)
	}()
	set := kadm.TopicsSet{}
	set.Add("orders", 0)
	set.Add("payments", 0)
	require.Eventually(t, func() bool {
		left, err := admin.ListPartitionReassignments(t.Context(), set)
		return err == nil && len(left.Sorted()) == 2
	}, 20*time.Second, 5*time.Millisecond)
	deleted, err := admin.DeleteTopics(t.Context(), "payments")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	fast := "1000000000"
	_, err = admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "leader.replication.throttled.rate", Value: &fast}, {Op: kadm.SetConfig, Name: "follower.replication.throttled.rate", Value: &fast}})
	require.NoError(t, err)
	r := <-ended
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "\n1 partitions reassigned\n")
	require.Contains(t, r.err, "strata: payments: deleted during the reassignment: UNKNOWN_TOPIC_OR_PARTITION")
	require.NotContains(t, r.err, "another client")
}

func TestReassignNamesTheMissingRight(t *testing.T) {
	t.Chdir(t.TempDir())
	grant := func(args ...string) {
		r := strataRun(t, append([]string{"acls", "add", "--principal", "User:ANONYMOUS", "--dir", "data", "--operation"}, args...)...)
		require.Equal(t, exitOK, r.code, r.err)
	}
	serve := func() (*process, func(args ...string) result) {
		p := start(t, "--dir", "data", "--brokers", "2", "--authorize", "--super-users", "User:admin")
		return p, func(args ...string) result {
			r := command(t, "", append([]string{"topics", "reassign", "-b", p.addr}, args...)...)
			require.Equal(t, exitFailed, r.code, r.out)
			require.Empty(t, r.out)
			return r
		}
	}
	p := start(t, "--dir", "data", "--brokers", "2")
	require.Equal(t, exitOK, command(t, "", "topics", "create", "orders", "--replication-factor", "1", "-b", p.addr).code)
	p.stopped(t)
	p, run := serve()
	require.Equal(t, "strata: no topics: the cluster has none, or there is no right to describe them\n", run("--replicas", "2").err)
	require.Equal(t, "strata: no right to describe the topics: orders: TOPIC_AUTHORIZATION_FAILED: Topic authorization failed.\n", run("orders", "--replicas", "2").err)
	require.Contains(t, run("--cancel").err, "strata: no right to describe the cluster: CLUSTER_AUTHORIZATION_FAILED")
	p.stopped(t)
	grant("describe", "--type", "topic", "--name", "orders")
	p, run = serve()
	require.Contains(t, run("--replicas", "2").err, "strata: no right to describe the cluster: CLUSTER_AUTHORIZATION_FAILED")
	p.stopped(t)
	grant("describe", "--type", "cluster")
	p, _ = serve()
	defer p.stopped(t)
	r := command(t, "", "topics", "reassign", "-b", p.addr, "--replicas", "2")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "strata: no right to alter the cluster: CLUSTER_AUTHORIZATION_FAILED")
}

func TestReassignNamesABrokerThatHasStopped(t *testing.T) {
	addr := start(t, "--memory", "--brokers", "2").addr
	tg, c := target{timeout: 10 * time.Second}, client(t, addr)
	require.NoError(t, replicasRun(t.Context(), &tg, c, []moveLine{{After: []int32{1, 2}}}))
	err := replicasRun(t.Context(), &tg, c, []moveLine{{After: []int32{1, 2}}, {After: []int32{1, 9}}})
	require.ErrorIs(t, err, kerr.ReplicaNotAvailable)
	require.ErrorContains(t, err, "broker 9 does not run")
}

// Stopped brokers and full leaders need more states than a server shows.
func TestPlanOfAReassignment(t *testing.T) {
	three := map[int32]string{1: "", 2: "", 3: ""}
	for name, c := range map[string]struct {
		parts []replicaSet
		racks map[int32]string
		n     int
		want  []string
	}{
		"a replica of a stopped broker is replaced": {
			[]replicaSet{{"a", 0, 1, []int32{9, 1}, []int32{1}}}, three, 2, []string{"a-0 [1 2]"},
		},
		"the leader stays when replicas are removed": {
			[]replicaSet{{"a", 0, 3, []int32{1, 2, 3}, []int32{3}}}, three, 1, []string{"a-0 [3]"},
		},
		"replicas out of sync are removed first": {
			[]replicaSet{{"a", 0, 1, []int32{1, 2, 3}, []int32{1, 3}}}, three, 2, []string{"a-0 [1 3]"},
		},
		"present replicas are not moved for balance": {
			[]replicaSet{{"a", 0, 1, []int32{1, 2}, []int32{1, 2}}, {"a", 1, 1, []int32{1, 2}, []int32{1, 2}}}, three, 2, nil,
		},
		"one broker does not lead all partitions it had alone": {
			[]replicaSet{{"a", 0, 1, []int32{1}, nil}, {"a", 1, 1, []int32{1}, nil}, {"a", 2, 1, []int32{1}, nil}},
			three, 3, []string{"a-0 [1 2 3]", "a-1 [2 1 3]", "a-2 [3 1 2]"},
		},
		"topics of one partition are led by different brokers": {
			[]replicaSet{{"a", 0, 1, []int32{1}, nil}, {"b", 0, 1, []int32{1}, nil}, {"c", 0, 1, []int32{1}, nil}},
			three, 2, []string{"a-0 [1 2]", "b-0 [3 1]", "c-0 [2 1]"},
		},
		"another rack first": {
			[]replicaSet{{"a", 0, 1, []int32{1}, nil}, {"a", 1, 1, []int32{1}, nil}},
			map[int32]string{1: "x", 2: "x", 3: "y"}, 2, []string{"a-0 [1 3]", "a-1 [3 1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range spreadReplicas(c.parts, c.racks, c.n) {
				got = append(got, fmt.Sprintf("%s-%d %v", m.Topic, m.Partition, m.After))
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(m.After))), c.n)
			}
			require.Equal(t, c.want, got)
		})
	}
}
