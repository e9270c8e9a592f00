package systest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

const killedTransformEnv = "STRATA_TEST_KILLED_TRANSFORM" // name of the process and directory

// A transforming process is killed again and again with SIGKILL, while it writes, commits, or
// still recovers from the last kill. The next process must find output and offsets that agree with
// each other and with the killed processes' lines. The output has each input record once.
func TestTransformIsExactlyOnceThoughItsProcessIsKilled(t *testing.T) {
	if env := os.Getenv(killedTransformEnv); env != "" {
		name, dir, _ := strings.Cut(env, " ")
		transformUntilKilled(name, dir)
		return
	}
	kills := 6
	if sample.Whole() {
		kills = 200
	}
	k := &killedTransform{T: t, dir: filepath.Join(t.TempDir(), "data")}
	k.audit(false)
	for n := range kills {
		k.runAndKill(fmt.Sprint("p", n), n%4 == 3)
		if rand.IntN(3) > 0 { // else the next process recovers
			k.audit(false)
		}
	}
	k.audit(true)
	t.Logf("%d kills, %d of them before the process was ready: %d records transformed; of %d transactions %d were told to be committed",
		kills, k.early, k.inputs, k.asked, k.told)
	require.Positive(t, k.told)
}

func openKilledTransform(dir string) (*strata.Cluster, error) {
	return strata.Open(strata.Config{Dir: dir, Group: group.Config{OffsetsPartitions: 3},
		Transactions: transaction.Config{Topic: transaction.TopicConfig{Partitions: 3}}})
}

// A telling is a cluster that calls committed when a commit is confirmed.
type telling struct {
	*strata.Cluster
	committed func()
}

func (c telling) TxnCoordinator() producer.TxnCoordinator {
	return tellingCoordinator{c.Cluster.TxnCoordinator(), c.committed}
}

type tellingCoordinator struct {
	producer.TxnCoordinator
	committed func()
}

func (c tellingCoordinator) End(ctx context.Context, r transaction.EndRequest) (transaction.Producer, error) {
	p, err := c.TxnCoordinator.End(ctx, r)
	if err == nil && r.Commit {
		c.committed()
	}
	return p, err
}

// A said is a line that the process writes, before or after it commits a transaction.
type said struct {
	Told   string             `json:",omitempty"` // name of a committed transaction
	Asked  string             `json:",omitempty"` // name of a transaction before its commit
	Moves  map[int32][2]int64 `json:",omitempty"` // offsets from and to, by partition of "in"
	Values []string           `json:",omitempty"`
}

func (s said) say() {
	line, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n')) // in one piece
}

// transformInto transforms each record of "in" into one in each partition of "out".
func transformInto(ctx context.Context, c *strata.Cluster, name string, say func(said)) error {
	var current atomic.Value // name of the transaction
	in, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"in"}, MaxPollRecords: 5})
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := producer.New(telling{c, func() { say(said{Told: current.Load().(string)}) }}, producer.Config{TransactionalID: "t"})
	if err != nil {
		return err
	}
	defer out.Close()
	n := 0
	return consumer.TransformBatches(ctx, in, out, func(ctx context.Context, b *consumer.Batch, tx *producer.Txn) error {
		n++
		asked := said{Asked: fmt.Sprintf("%s.%d", name, n), Moves: map[int32][2]int64{}}
		for from, records := range b.Partitions() {
			asked.Moves[from.Partition] = [2]int64{records[0].Offset, records[len(records)-1].Offset + 1}
			for _, r := range records {
				for to := range int32(2) {
					value := fmt.Sprintf("%d/%d by %s", from.Partition, r.Offset, asked.Asked)
					asked.Values = append(asked.Values, valueIn(value, at("out", to)))
					if err := tx.Send(ctx, record.String("out", "", value).To(to)); err != nil {
						return err
					}
				}
			}
		}
		current.Store(asked.Asked)
		say(asked)
		return nil
	})
}

func transformUntilKilled(name, dir string) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has died
	}()
	c, err := openKilledTransform(dir)
	if err == nil {
		err = transformInto(context.Background(), c, name, said.say)
	}
	fmt.Fprintln(os.Stderr, "transform:", err)
	os.Exit(2)
}

type killedTransform struct {
	*testing.T
	dir     string
	history txnHistory
	inputs  int
	early   int // processes killed before their first line
	asked   int
	told    int
	readers []*committedReader
}

// hear adds a line of the process to the history.
func (k *killedTransform) hear(attempts map[string]*attempt, s said) {
	if s.Told != "" {
		k.told++
		k.history.add(txnEvent{told: attempts[s.Told]})
		return
	}
	k.asked++
	a := &attempt{name: s.Asked, commit: true, values: s.Values, group: "g", moves: map[record.TopicPartition][2]int64{}}
	for p, fromTo := range s.Moves {
		a.moves[at("in", p)] = fromTo
	}
	attempts[s.Asked] = a
	k.history.add(txnEvent{asked: a})
}

// runAndKill runs a process and kills it: some time after its first line, or, if early, after its
// start.
func (k *killedTransform) runAndKill(name string, early bool) {
	k.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTransformIsExactlyOnceThoughItsProcessIsKilled$")
	cmd.Env = append(os.Environ(), killedTransformEnv+"="+name+" "+k.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(k, err)
	_, err = cmd.StdinPipe()
	require.NoError(k, err)
	require.NoError(k, cmd.Start())
	kill := func(within time.Duration) {
		time.AfterFunc(rand.N(within), func() { _ = cmd.Process.Kill() })
	}
	if early {
		kill(40 * time.Millisecond)
	}
	attempts, begun := map[string]*attempt{}, false
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break // killed: an incomplete last line does not count
		}
		if !begun && !early {
			kill(60 * time.Millisecond)
		}
		begun = true
		var s said
		require.NoError(k, json.Unmarshal(line, &s), "%s", line)
		k.hear(attempts, s)
	}
	_ = cmd.Wait()
	require.False(k, cmd.ProcessState.Exited(), "%s: %s", name, cmd.ProcessState)
	if !begun {
		k.early++
	}
}

// audit opens the directory, has open transactions ended, and checks the outcome. It adds input;
// if last, it transforms the remaining input instead.
func (k *killedTransform) audit(last bool) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
	defer cancel()
	c, err := openKilledTransform(k.dir)
	require.NoError(k, err)
	defer func() { require.NoError(k, c.Close()) }()
	if k.readers == nil {
		require.NoError(k, c.CreateTopic(ctx, "in", topic.Config{Partitions: 3}))
		require.NoError(k, c.CreateTopic(ctx, "out", topic.Config{Partitions: 2}))
		k.readers = []*committedReader{{of: at("out", 0)}, {of: at("out", 1)}}
	}
	for _, r := range k.readers {
		r.look(ctx, c, &k.history)
	}
	if last {
		attempts, done := map[string]*attempt{}, make(chan error, 1)
		stop, cancel := context.WithCancel(ctx)
		go func() {
			done <- transformInto(stop, c, "last", func(s said) { k.hear(attempts, s) })
		}()
		await(k.T, "all is transformed", func() bool { return committedOf(k.T, c) >= int64(k.inputs) || len(done) > 0 })
		cancel()
		require.NoError(k, <-done)
	}
	p, err := producer.New(c, producer.Config{TransactionalID: "t"})
	require.NoError(k, err)
	require.NoError(k, p.InitTransactions(ctx))
	require.NoError(k, p.Close())
	x := outcome(k.T, c, []record.TopicPartition{at("out", 0), at("out", 1)}, "g")
	require.Empty(k, k.history.check(x))
	if last {
		require.Len(k, x.values[at("out", 0)], k.inputs)
		require.Len(k, x.values[at("out", 1)], k.inputs)
		return
	}
	var more []record.Record
	for k.inputs-len(x.values[at("out", 0)]) < 600 {
		more = append(more, record.String("in", "", "x").To(int32(k.inputs%3)))
		k.inputs++
	}
	plain, err := producer.New(c, producer.Config{})
	require.NoError(k, err)
	_, err = plain.Send(ctx, more...)
	require.NoError(k, err)
	require.NoError(k, plain.Close())
}
