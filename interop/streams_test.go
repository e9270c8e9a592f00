package interop

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
)

// Kafka Streams, exactly once: it counts words while instances are killed and replaced.

// An instance is a running program that counts words.
type instance struct {
	cmd  *exec.Cmd
	out  syncBuffer
	done chan struct{}
}

func startWords(t *testing.T, k target, app, from, to, protocol string) *instance {
	t.Helper()
	source, err := filepath.Abs("java/Words.java")
	require.NoError(t, err)
	i := &instance{cmd: kafkaKit(t).Java(t.Context(), source, k.addr, app, t.TempDir(), from, to, protocol), done: make(chan struct{})}
	i.cmd.Stdout, i.cmd.Stderr = &i.out, &i.out
	require.NoError(t, i.cmd.Start())
	go func() {
		defer close(i.done)
		i.cmd.Wait() // it is killed
	}()
	t.Cleanup(i.kill)
	return i
}

func (i *instance) kill() {
	i.cmd.Process.Kill()
	<-i.done
}

// streamsKills is the number of instances that are killed while words are counted.
const streamsKills = 4

// groupProtocols are the protocols of Kafka Streams. Either the consumers assign the partitions
// among themselves, or the brokers assign tasks (KIP-1071).
var groupProtocols = []string{"classic", "streams"}

// TestStreamsCountsWordsExactlyOnceWhileInstancesDie requires every count of every word once and
// in order: from 1 to the number of times it was written.
func TestStreamsCountsWordsExactlyOnceWhileInstancesDie(t *testing.T) {
	t.Parallel()
	need(t, "java", "mvn")
	for _, protocol := range groupProtocols {
		t.Run(protocol, func(t *testing.T) {
			ks, _ := startStrataServing(t, 1, func(cfg *strata.Config) {
				cfg.Group.Streams = group.StreamsConfig{SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond}
			}, func(*kafka.Config) {})
			countWords(t, ks[0], protocol)
		})
	}
}

// TestStreamsCountsWordsOnApacheKafka is the same on a broker of Kafka.
func TestStreamsCountsWordsOnApacheKafka(t *testing.T) {
	t.Parallel()
	k := startKafkaWith(t, "group.streams.session.timeout.ms=6000", "group.streams.min.session.timeout.ms=6000",
		"group.streams.heartbeat.interval.ms=500", "group.streams.min.heartbeat.interval.ms=500")
	awaitCoordinators(t, k)
	for _, protocol := range groupProtocols {
		t.Run(protocol, func(t *testing.T) { countWords(t, k, protocol) })
	}
}

func countWords(t *testing.T, k target, protocol string) {
	from, to, app := newTopic(t, k, 4), newTopic(t, k, 2), fresh("words")
	vocabulary := strings.Fields("the log is a sequence of records that is only ever appended to and read by many")
	wanted := map[string]int64{}
	var lines [][]string
	for range 2000 {
		var line []string
		for range 4 {
			w := vocabulary[rand.IntN(len(vocabulary))]
			wanted[w]++
			line = append(line, w)
		}
		lines = append(lines, line)
	}
	var fed sync.WaitGroup
	defer fed.Wait()
	in := franz(t, k, kgo.DefaultProduceTopic(from))
	fed.Go(func() {
		for i, line := range lines {
			in.Produce(t.Context(), &kgo.Record{Key: fmt.Append(nil, i), Value: []byte(strings.Join(line, " "))}, nil)
			time.Sleep(10 * time.Millisecond) // the pace of the lines
		}
		if err := in.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
	instances := []*instance{startWords(t, k, app, from, to, protocol), startWords(t, k, app, from, to, protocol)}
	counted := franz(t, k, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	seen, total, killed := map[string]int64{}, 0, 0
	deadline := time.Now().Add(3 * time.Minute)
	for total < 4*len(lines) {
		require.True(t, time.Now().Before(deadline), "%d of %d counts; the instances said: %s", total, 4*len(lines), append(instances[0].out.bytes(), instances[1].out.bytes()...))
		f := counted.PollFetches(t.Context())
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			n := int64(binary.BigEndian.Uint64(r.Value))
			require.Equal(t, seen[string(r.Key)]+1, n, "%s", r.Key)
			seen[string(r.Key)] = n
			total++
		})
		if killed < streamsKills && total > (killed+1)*len(lines)*4/(streamsKills+2) {
			instances[killed%2].kill()
			instances[killed%2] = startWords(t, k, app, from, to, protocol)
			killed++
		}
	}
	require.Equal(t, wanted, seen)
	require.Equal(t, streamsKills, killed)
}
