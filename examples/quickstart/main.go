// Command quickstart counts the lines of a file per key, through a durable log
// and a group of consumers, exactly once.
//
//	go run ./examples/quickstart [-dir DIR] [-kafka HOST:PORT] [FILE]
//
// Every line becomes a record keyed by its first field, produced into a topic of six partitions.
// Two consumers of a group count per key, a third joins half-way. Each partition's counts and its
// next offset are kept together in one small file that is replaced atomically: whatever kills the
// program, running it again with the same -dir counts every line exactly once.
//
// Without -dir it works in a temporary directory, and runs a second time there to show that it
// resumes. With -kafka the log is a topic of Apache Kafka, Redpanda or strata serve, and only the
// counts are in the directory. Without FILE it counts the time zones of each country in zones.tsv,
// the table zone.tab of the IANA time zone database (public domain).
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/stratalog/strata"
	coordinator "github.com/stratalog/strata/group"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

//go:embed zones.tsv
var zones []byte

const (
	topicName  = "lines"
	partitions = 6
	groupName  = "counters"
	rateFrom   = 100_000 // records: with fewer, records/s would only measure rebalances

	// sessionTimeout is the time after which members of the next run get the partitions of a run
	// that was killed. Kafka accepts 6 s or more by default.
	sessionTimeout      = time.Second
	kafkaSessionTimeout = 6 * time.Second
)

func main() {
	var at place
	flag.StringVar(&at.dir, "dir", "", "directory of the log, to continue with it later (default: a temporary directory)")
	flag.StringVar(&at.kafka, "kafka", "", "HOST:PORT of a broker, instead of a cluster in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	work := run
	if at.dir == "" {
		work = runTwice
	}
	if err := work(ctx, at, flag.Arg(0), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// A place is where the log and the counts are.
type place struct {
	dir   string
	kafka string // address of a broker; empty: the log is in dir
}

// open returns the cluster. Everything else in this program is the same for both kinds.
func (at place) open(ctx context.Context) (strata.Client, error) {
	if at.kafka != "" {
		return remote.Open(ctx, remote.Config{Brokers: []string{at.kafka}})
	}
	return strata.Open(strata.Config{Dir: at.logDir(), Group: coordinator.Config{MinSessionTimeout: sessionTimeout}})
}

func (at place) logDir() string   { return filepath.Join(at.dir, "log") }
func (at place) countDir() string { return filepath.Join(at.dir, "counts") }

func (at place) sessionTimeout() time.Duration {
	if at.kafka != "" {
		return kafkaSessionTimeout
	}
	return sessionTimeout
}

// runTwice calls run in a temporary directory, and again with the files of the first run.
func runTwice(ctx context.Context, at place, file string, out io.Writer) (err error) {
	if at.dir, err = os.MkdirTemp("", "strata-quickstart-"); err != nil {
		return err
	}
	defer os.RemoveAll(at.dir)
	if err := run(ctx, at, file, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nThe same again, over the log and the counts of the first run:")
	return run(ctx, at, file, out)
}

func run(ctx context.Context, at place, file string, out io.Writer) error {
	name, lines, err := source(file)
	if err != nil {
		return err
	}
	cluster, err := at.open(ctx)
	if err != nil {
		return err
	}
	defer cluster.Close()
	err = cluster.CreateTopic(ctx, topicName, topic.Config{Partitions: partitions})
	if err != nil && !errors.Is(err, strata.ErrTopicExists) {
		return err
	}

	want, total, err := scan(lines)
	if err != nil {
		return err
	}
	start := time.Now()
	g, err := newGroup(ctx, cluster, at, out)
	if err != nil {
		return err
	}
	g.join("ann")
	g.join("bob")
	sent, err := produce(ctx, cluster, lines, func(n int) {
		if n == total/2 {
			g.join("cleo") // the others hand partitions over and continue
		}
	})
	if err != nil {
		return errors.Join(err, g.leave(err))
	}
	counted, err := g.finish(ctx, cluster)
	if err != nil {
		return err
	}
	stored := "are on stable storage"
	if at.kafka != "" {
		stored = "are acknowledged" // Kafka does not sync each write
	}
	fmt.Fprintf(out, "\n%s: %d of %d lines were new and %s in %d partitions; group %q counted %d records",
		name, sent, total, stored, partitions, groupName, counted)
	if took := time.Since(start); counted >= rateFrom {
		fmt.Fprintf(out, ": %.0f records/s through the log, rebalances included", float64(counted)/took.Seconds())
	}
	fmt.Fprintln(out)

	got, err := addUp(at.countDir())
	if err != nil {
		return err
	}
	if counted > 0 { // otherwise the run before has counted everything
		fmt.Fprintln(out)
		if err := report(ctx, cluster, at, out); err != nil {
			return err
		}
	}
	return compare(want, got, out)
}

// lines calls yield for each line of a file with its number, from 1, until it returns false.
// Each call starts from the first line.
type lines func(yield func(n int, line []byte) bool) error

// source opens the lines to count.
func source(file string) (name string, all lines, err error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(zones)), nil }
	name = "zones.tsv (country, coordinates, time zone)"
	if file != "" {
		name = file
		open = func() (io.ReadCloser, error) { return os.Open(file) }
		f, err := open()
		if err != nil {
			return "", nil, err
		}
		f.Close()
	}
	return name, func(yield func(int, []byte) bool) error {
		f, err := open()
		if err != nil {
			return err
		}
		defer f.Close()
		in := bufio.NewScanner(f)
		in.Buffer(nil, 1<<20)
		for n := 1; in.Scan(); n++ {
			if !yield(n, in.Bytes()) {
				return nil
			}
		}
		return in.Err()
	}, nil
}

// key returns the first field of a line; nil for an empty line.
func key(line []byte) []byte {
	if f := bytes.Fields(line); len(f) > 0 {
		return f[0]
	}
	return []byte{}
}

// scan counts the lines per key directly from the file, for comparison with the group's counts.
func scan(all lines) (counts map[string]int, total int, err error) {
	counts = map[string]int{}
	err = all(func(n int, line []byte) bool {
		counts[string(key(line))]++
		total = n
		return true
	})
	return counts, total, err
}
