package interop

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startKafkaBrokers starts a cluster of real brokers, until the end of the test.
func startKafkaBrokers(t *testing.T, n int) (ks []target) {
	t.Helper()
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	brokers, err := kit.StartCluster(ctx, t.TempDir(), n)
	require.NoError(t, err)
	for _, b := range brokers {
		t.Cleanup(b.Stop)
		ks = append(ks, target{kind: "kafka", addr: b.Addr, dir: b.Dir})
	}
	eventually(t, "all brokers serve", func() bool {
		md, err := admin(t, ks[0]).BrokerMetadata(within(t))
		return err == nil && len(md.Brokers) == n
	})
	return ks
}

// ownOfACluster matches text that differs between any two clusters: addresses, names of groups
// chosen by their coordinator, record batches, and the controller id. Kafka returns any broker as
// the controller.
var ownOfACluster = regexp.MustCompile(`(\\*"Host\\*":\\*"[^"\\]*\\*"|\\*"ControllerID\\*":-?\d+|group-\d+|\\*"RecordBatches\\*":\\*"[^"\\]+\\*")`)

// TestAnswersOfTheWrongBrokerAreKafkas sends brokers requests for partitions and groups that other
// brokers lead and coordinate.
func TestAnswersOfTheWrongBrokerAreKafkas(t *testing.T) {
	t.Parallel()
	ours, _ := startStrataBrokers(t, 3)
	run := func(ks []target) (first, second *transcript) {
		seedBrokers(t, ks[0])
		got, err := admin(t, ks[0]).ListTopics(within(t), "t")
		require.NoError(t, err)
		first, second = newTranscript(t, ks[0]), newTranscript(t, ks[1])
		askOtherBrokersPartitions(first, got["t"].ID)
		askOtherBrokersGroups(first, groupOf(t, ks[0], 2))
		askAnyBroker(first, 1)
		askAnyBroker(second, 2)
		return first, second
	}
	oursFirst, oursSecond := run(ours)
	theirsFirst, theirsSecond := run(startKafkaBrokers(t, 3))
	for _, pair := range [][2]*transcript{{theirsFirst, oursFirst}, {theirsSecond, oursSecond}} {
		theirs, mine := pair[0], pair[1]
		require.Equal(t, theirs.names, mine.names)
		for _, name := range theirs.names {
			want, is := ownOfACluster.ReplaceAllString(theirs.said[name], "OWN"), ownOfACluster.ReplaceAllString(mine.said[name], "OWN")
			if want != is {
				t.Errorf("%s\nKafka:  %s\nStrata: %s", name, want, is)
			}
		}
	}
}
