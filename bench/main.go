// Command bench measures embeddable logs, queues and fake brokers side by side. Every measurement
// runs in a new child process (the binary re-executes itself) so that peak memory, allocation
// counts and crash tests are isolated.
//
//	go run . -run W1,W3 -peers tidwall,limit        # substring filters
//	go run . -quick                                 # everything, under a minute
//	BENCH_CPUPROFILE=cpu.out go run . -run W8 -runs 1 -peers strata-group
//	BENCH_MEMPROFILE=mem.out go run . -run W10 -runs 1 -peers strata-memory
//	BENCH_TRACE=trace.out go run . -run W8 -runs 1 -peers strata-group
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options are the options of Subject.Open.
type Options struct {
	Sync    bool // every AppendBatch must be on stable storage when it returns
	RecSize int  // payload size of every record
}

// Subject is an append-only log, or the closest equivalent of a peer. AppendBatch must be safe for
// concurrent use; recs are borrowed.
type Subject interface {
	Open(dir string, o Options) error // creates or recovers
	AppendBatch(recs [][]byte) error
	ReadAll(fn func(rec []byte)) error // oldest to newest
	Close() error
}

// Flusher is implemented by asynchronous subjects: Flush is part of the timed region.
type Flusher interface{ Flush() error }

// GroupAppender is an optional faster path for one record from many writers.
type GroupAppender interface{ AppendOne(rec []byte) error }

// PubSub is a produce->consume path inside one process.
type PubSub interface {
	Open(dir string) error
	Subscribe(fn func(rec []byte)) error // returns immediately, fn runs on another goroutine
	Publish(rec []byte) error            // returns when accepted
	Close() error
}

// Broker serves the Kafka protocol on the returned addresses. After Start the topic "bench" with
// one partition must exist.
type Broker interface {
	Start(dir string) ([]string, error)
	Stop()
}

// entry is one registered subject; exactly one constructor per family is set.
type entry struct {
	name, note string
	log        func() Subject
	pubsub     func() PubSub
	broker     func() Broker
	group      func(Job) (Result, error) // produce to a group
	tail       func(Job) (Result, error) // produce to readers at the end
	many       bool                      // opens many partitions: W11
	replicas   *shape                    // loses leaders, and has idle partitions: W12, W13
	txn        *txnKind                  // sends transactions: W14
	crowd      func(Job) (Result, error) // many members of one group: W16, W17
	client     func() netClient          // clients of one broker: W18
	skip       string                    // workloads to leave out, e.g. "W2 W5"
	onDemand   bool                      // runs only if -peers names it
}

var registry []entry

func register(e entry) { registry = append(registry, e) }

func lookup(name string) (e entry) {
	for _, r := range registry {
		if r.name == name {
			e = r
		}
	}
	return e
}

// Job is the task of one child process.
type Job struct {
	Op, Subject, Dir string
	Size, Batch      int
	Writers          int
	Sync, Kill       bool
	Bytes, Expect    int64
	MaxTime          time.Duration

	// of W18
	What, Addr, Topic string
	Delay             time.Duration // of each response
	Work              time.Duration // for each record
}

// Result is one child measurement, and after median() one row of the report.
type Result struct {
	Workload  string  `json:"workload"`
	Case      string  `json:"case"`
	Subject   string  `json:"subject"`
	Runs      int     `json:"runs"`
	Records   int64   `json:"records"`
	RecsPerS  float64 `json:"records_per_s,omitempty"`
	MBPerS    float64 `json:"mb_per_s,omitempty"`
	Ratio     float64 `json:"ratio_to_limit,omitempty"`
	P50       float64 `json:"p50_us,omitempty"`
	P99       float64 `json:"p99_us,omitempty"`
	P999      float64 `json:"p999_us,omitempty"`
	MS        float64 `json:"ms,omitempty"`
	CPUNs     float64 `json:"cpu_ns_per_record,omitempty"`
	Allocs    float64 `json:"allocs_per_record"`
	AllocB    float64 `json:"alloc_bytes_per_record"`
	RSSMB     float64 `json:"rss_peak_mb"`
	SpreadPct float64 `json:"spread_pct"`
	Note      string  `json:"note,omitempty"`
	Err       string  `json:"error,omitempty"`
}

type config struct {
	runs    int
	dir     string
	bytes   int64
	open    int64
	maxTime time.Duration
	quick   bool
	cases   string
	broker  string
	results []Result
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-child" {
		childMain(os.Args[2])
		return
	}
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	run := fs.String("run", "W1,W2,W3,W4,W5,W6", "workloads")
	peers := fs.String("peers", "", "comma separated name substrings, or =NAME (empty: all)")
	runs := fs.Int("runs", 3, "repetitions per figure; the median is reported")
	dir := fs.String("dir", os.TempDir(), "scratch directory on the disk to be measured")
	mb := fs.Int64("mb", 512, "MB written per append run, at most")
	openMB := fs.Int64("openmb", 1024, "log size for W5 in MB")
	maxTime := fs.Duration("maxtime", 3*time.Second, "time cap of one append run")
	cases := fs.String("case", "", "only cases whose names have this substring")
	broker := fs.String("broker", "", "HOST:PORT of a broker for W18 (empty: a Strata in memory)")
	quick := fs.Bool("quick", false, "one short run of a reduced matrix")
	jsonOut := fs.String("json", "", "write all rows as JSON to this file")
	mdOut := fs.String("md", "", "write Markdown tables to this file")
	merge := fs.String("merge", "", "JSON file of earlier rows to merge: rows measured now replace old ones")
	list := fs.Bool("list", false, "list subjects")
	fs.Parse(os.Args[1:])

	var sel []entry
	for _, e := range registry {
		keep := *peers == "" && !e.onDemand
		for _, p := range strings.Split(*peers, ",") {
			keep = keep || p != "" && (p == "="+e.name || strings.Contains(e.name, p))
		}
		if keep {
			sel = append(sel, e)
		}
	}
	if *list {
		for _, e := range sel {
			fmt.Printf("%-22s log=%v pubsub=%v broker=%v %s\n", e.name, e.log != nil, e.pubsub != nil, e.broker != nil, e.note)
		}
		return
	}
	c := &config{runs: *runs, dir: *dir, bytes: *mb << 20, open: *openMB << 20, maxTime: *maxTime, quick: *quick, cases: *cases, broker: *broker}
	if *quick {
		c.runs, c.bytes, c.open, c.maxTime = 1, 16<<20, 32<<20, 150*time.Millisecond
	}
	start := time.Now()
	for _, w := range strings.Split(*run, ",") {
		if f := workloads[w]; f != nil {
			f(c, sel)
		} else {
			fmt.Fprintln(os.Stderr, "unknown workload", w)
		}
	}
	if *merge != "" {
		c.results = mergeRows(*merge, c.results)
	}
	ratios(c.results)
	md := markdown(c.results)
	fmt.Print(md)
	fmt.Printf("\ntotal %s, %s, %d CPUs\n", time.Since(start).Round(time.Second), runtime.Version(), runtime.NumCPU())
	if *mdOut != "" {
		must(os.WriteFile(*mdOut, []byte(md), 0o644))
	}
	if *jsonOut != "" {
		b, err := json.MarshalIndent(c.results, "", " ")
		must(err)
		must(os.WriteFile(*jsonOut, append(b, '\n'), 0o644))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// spawn runs one job in a child process and parses the last line it prints.
func spawn(j Job) Result {
	b, _ := json.Marshal(j)
	cmd := exec.Command("/proc/self/exe", "-child", string(b))
	// one of the libraries sets GOGC to 50 in the whole process, and so for every subject
	if os.Getenv("GOGC") == "" {
		cmd.Env = append(os.Environ(), "GOGC=100")
	}
	if os.Getenv("BENCH_DEBUG") != "" {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.Output()
	var r Result
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if e := json.Unmarshal([]byte(lines[len(lines)-1]), &r); e != nil {
		r.Err = fmt.Sprintf("child failed: %v", err)
	}
	return r
}

// measure runs one case for all subjects and records the median of each. It runs them round-robin,
// so that slow changes of the machine affect all subjects equally. do gets an empty directory.
func (c *config) measure(w, cas string, sel []entry, do func(e entry, dir string) Result) {
	if !strings.Contains(cas, c.cases) {
		return
	}
	all := make([][]Result, len(sel))
	for range c.runs {
		for i, e := range sel {
			if len(all[i]) > 0 && all[i][0].Err != "" {
				continue
			}
			dir, err := os.MkdirTemp(c.dir, "strata-bench-")
			must(err)
			if r := do(e, dir); r.Err == "" {
				all[i] = append(all[i], r)
			} else {
				all[i] = []Result{r}
			}
			os.RemoveAll(dir)
		}
	}
	for i, e := range sel {
		r := median(all[i])
		r.Workload, r.Case, r.Subject, r.Note = w, cas, e.name, e.note
		c.results = append(c.results, r)
		fmt.Fprintf(os.Stderr, "%s %-24s %-20s %12.0f rec/s %8.1f MB/s p50 %8.1fus p99 %8.1fus %8.1fms rss %4.0fMB alloc %5.2f +-%2.0f%% %s\n",
			w, cas, e.name, r.RecsPerS, r.MBPerS, r.P50, r.P99, r.MS, r.RSSMB, r.Allocs, r.SpreadPct, r.Err)
	}
}

func median(rs []Result) Result {
	mid := func(get func(Result) float64) float64 {
		v := make([]float64, len(rs))
		for i, r := range rs {
			v[i] = get(r)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	m := rs[len(rs)-1]
	m.Runs = len(rs)
	lead := func(r Result) float64 { return r.RecsPerS + r.MS + r.P50 }
	if m.RecsPerS > 0 {
		lead = func(r Result) float64 { return r.RecsPerS }
	}
	lo, hi := lead(rs[0]), lead(rs[0])
	for _, r := range rs {
		lo, hi = min(lo, lead(r)), max(hi, lead(r))
	}
	if md := mid(lead); md > 0 {
		m.SpreadPct = 100 * (hi - lo) / md
	}
	for f, get := range map[*float64]func(Result) float64{
		&m.RecsPerS: func(r Result) float64 { return r.RecsPerS }, &m.MBPerS: func(r Result) float64 { return r.MBPerS },
		&m.P50: func(r Result) float64 { return r.P50 }, &m.P99: func(r Result) float64 { return r.P99 },
		&m.P999: func(r Result) float64 { return r.P999 }, &m.MS: func(r Result) float64 { return r.MS },
		&m.Allocs: func(r Result) float64 { return r.Allocs }, &m.AllocB: func(r Result) float64 { return r.AllocB },
		&m.RSSMB: func(r Result) float64 { return r.RSSMB }, &m.CPUNs: func(r Result) float64 { return r.CPUNs },
	} {
		*f = mid(get)
	}
	return m
}
