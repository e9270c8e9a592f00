package main

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/topic"
)

// movedWithUsers makes a cluster in "data" that has users, rights and quotas, and a copy of it in
// "moved".
func movedWithUsers(t *testing.T) {
	t.Helper()
	moving(t)
	for _, args := range [][]string{
		{"users", "set", "alice"}, {"acls", "add", "--type", "topic", "--name", "orders", "--principal", "User:alice", "--operation", "read"},
		{"quotas", "set", "--for-user", "alice", "producer_byte_rate=1000"},
	} {
		r := strataIn(t, "secret\n", append(args, "--dir", "data")...)
		require.Equal(t, exitOK, r.code, r.err)
	}
	require.Equal(t, exitOK, strataRun(t, "backup", "data", "saved").code)
	require.Equal(t, exitOK, strataRun(t, "restore", "saved", "moved").code)
}

func TestGraduateCompareListsDifferentUsersRightsQuotasReplicasAndGroups(t *testing.T) {
	movedWithUsers(t)
	p := start(t, "--dir", "moved", "--authorize", "--super-users", "User:ANONYMOUS", "--brokers", "2")
	compare := func() result { return strataRun(t, "graduate", "--compare", "--dir", "data", "-b", p.addr) }
	r := compare()
	require.Equal(t, exitOK, r.code, r.out+r.err)
	require.True(t, strings.HasSuffix(r.out, ": equal\n"), r.out)

	for _, args := range [][]string{
		{"users", "set", "alice", "--mechanism", "scram-sha-256", "--iterations", "16384"}, {"users", "set", "bob", "--mechanism", "scram-sha-512"},
		{"acls", "remove", "--type", "topic", "--name", "orders"},
		{"acls", "add", "--type", "group", "--name", "billing", "--principal", "User:bob", "--operation", "read"},
		{"quotas", "set", "--for-user", "alice", "producer_byte_rate=2000"}, {"topics", "reassign", "payments", "--replicas", "2"},
		{"groups", "reset", "other", "--topic", "orders", "--to", "earliest"},
	} {
		r := strataIn(t, "secret\n", append(args, "-b", p.addr)...)
		require.Equal(t, exitOK, r.code, "%v %s", args, r.err)
	}
	r = compare()
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, `payments: replication factor was 1, now 2
group other: group was missing, now present
user alice: credential was SCRAM-SHA-256 with 8192 iterations, SCRAM-SHA-512 with 8192 iterations, now SCRAM-SHA-256 with 16384 iterations, SCRAM-SHA-512 with 8192 iterations
user bob: credential was missing, now SCRAM-SHA-512 with 8192 iterations
ALLOW User:alice READ from * on LITERAL TOPIC:orders: access control entry was present, now missing
ALLOW User:bob READ from * on LITERAL GROUP:billing: access control entry was missing, now present
user alice: client quota was producer_byte_rate=1000, now producer_byte_rate=2000
data and `+p.addr+`: 3 topics, 53 partitions, 1 groups with committed offsets and lag 1: 7 DIFFERENCES
`, r.out)

	p = start(t, "--memory")
	require.Contains(t, compare().out, "\naccess control entries: number was 1, now the cluster has no authorizer\n")
}

// Kafka leaves out of its lists all that a principal may not describe.
func TestGraduateCompareSaysWhatItHasNoRightToRead(t *testing.T) {
	movedWithUsers(t)
	p := start(t, "--dir", "moved", "--authorize", "--super-users", "User:admin")
	compare := func() result { return strataRun(t, "graduate", "--compare", "--dir", "data", "-b", p.addr) }
	summary := "data and " + p.addr + ": 3 topics, 53 partitions, 1 groups with committed offsets and lag 1: equal, "
	r := compare()
	require.Equal(t, exitFailed, r.code, r.err)
	require.Empty(t, r.err)
	require.Equal(t, `not compared: access control entries: no right to describe the cluster
not compared: client quotas: no right to describe configurations of the cluster
not compared: groups billing: no right to describe them
not compared: topics __consumer_offsets, orders, payments: no right to describe them
not compared: users: no right to describe the cluster
`+summary+"5 PARTS NOT COMPARED\n", r.out)
	p.stopped(t)

	for _, args := range [][]string{{"topic", "orders", "describe"}, {"topic", "payments", "describe"}, {"topic", "payments", "describe_configs"}, {"group", "*", "describe"}, {"cluster", "kafka-cluster", "describe"}} {
		r := strataRun(t, "acls", "add", "--principal", "User:ANONYMOUS", "--type", args[0], "--name", args[1], "--operation", args[2], "--dir", "moved")
		require.Equal(t, exitOK, r.code, r.err)
	}
	p = start(t, "--dir", "moved", "--authorize", "--super-users", "User:admin")
	summary = "data and " + p.addr + ": 3 topics, 53 partitions, 1 groups with committed offsets and lag 1: 5 DIFFERENCES, "
	r = compare()
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.err)
	require.Contains(t, r.out, "not compared: client quotas: no right to describe configurations of the cluster\n")
	require.Contains(t, r.out, "not compared: settings of topics orders: no right to describe configurations of the topics\n")
	require.Contains(t, r.out, "not compared: topics __consumer_offsets: no right to describe them\n")
	require.Equal(t, 3, strings.Count(r.out, "not compared: "))
	require.Equal(t, 5, strings.Count(r.out, "access control entry was missing, now present\n"), "the rights that were added")
	require.Contains(t, r.out, summary+"3 PARTS NOT COMPARED\n")
}

func TestGraduateCompareNamesABrokerThatDoesNotAnswer(t *testing.T) {
	moving(t)
	c, err := strata.Open(strata.Config{Brokers: 2})
	require.NoError(t, err)
	lns := map[int32]net.Listener{}
	for _, id := range c.Backend().Brokers() {
		lns[id], err = net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
	}
	addr := lns[1].Addr().(*net.TCPAddr)
	server := kafka.NewServer(c, kafka.Config{Advertise: func(id int32, _ net.Listener) (string, int32) {
		if id == 2 {
			return "127.0.0.1", 1 // no process listens there
		}
		return "127.0.0.1", int32(addr.Port)
	}})
	ended := make(chan error, 1)
	go func() { ended <- server.ServeAll(lns) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
		require.NoError(t, c.Close())
	})
	r := strataRun(t, "graduate", "--compare", "--dir", "data", "-b", addr.String(), "--timeout", "5s")
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.out)
	require.Regexp(t, `^strata: broker 2 at 127\.0\.0\.1:1 does not answer: .*connection refused\n$`, r.err)

	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{2}}}))
	require.NoError(t, c.Backend().KillBroker(2))
	r = strataRun(t, "graduate", "--compare", "--dir", "data", "-b", addr.String(), "--timeout", "5s")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "strata: orders-0 has no leader: of its replicas on brokers 2, those on 2 do not run: LEADER_NOT_AVAILABLE: There is no leader for this topic-partition as we are in the middle of a leadership election.\n", r.err)
}
