package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// A target is the cluster of a command: brokers at some address, or a directory that no process has
// open. The command then opens the directory itself and serves it on an in-memory network. Either
// way it speaks Kafka's protocol.
type target struct {
	bootstrap []string
	dir       string
	timeout   time.Duration
	login     login
	config    string         // configuration file
	set       *pflag.FlagSet // flags of the command
	fileOnly  bool           // the environment does not apply: it is another target's
}

// flags adds the flags that name a target.
func (tg *target) flags(c *cobra.Command) {
	names := tg.clusterFlags(c)
	c.Flags().StringVar(&tg.dir, "dir", "", "directory of a cluster that no process has open")
	for _, name := range append(names, "bootstrap") {
		c.MarkFlagsMutuallyExclusive(name, "dir")
	}
}

// clusterFlags adds the flags that name a running cluster. It returns the names of those of its
// login.
func (tg *target) clusterFlags(c *cobra.Command) []string {
	f := c.Flags()
	f.StringSliceVarP(&tg.bootstrap, "bootstrap", "b", nil, "address of a broker, HOST:PORT; several with commas; default: $"+bootstrapEnv+", or bootstrap in the configuration file")
	f.DurationVar(&tg.timeout, "timeout", 10*time.Second, "how long the target may take to answer")
	f.StringVar(&tg.config, "config", "", "configuration `file` with lines name = value, for these flags and the password; default: $"+configEnv+", or strata/config in the user's configuration directory. Environment variables override it, for example $"+envOf("tls-ca"))
	tg.set = f
	return tg.login.flags(f)
}

// A conn is a connection to a target.
type conn struct {
	asker
	opts   []kgo.Opt
	closes []func() error // called in reverse order
}

// An asker sends requests to brokers: with admin, or with client for requests that kadm lacks.
type asker struct {
	client *kgo.Client
	admin  *kadm.Client
}

func newAsker(client *kgo.Client) asker { return asker{client, kadm.NewClient(client)} }

// connect connects to the target, and returns an error if no broker answers.
func (a *app) connect(ctx context.Context, tg *target) (c *conn, err error) {
	c = &conn{opts: []kgo.Opt{kgo.SeedBrokers(tg.bootstrap...), kgo.ClientID("strata"), kgo.RetryTimeout(tg.timeout),
		kgo.DialTimeout(tg.timeout), kgo.RequestTimeoutOverhead(min(max(tg.timeout, 100*time.Millisecond), 15*time.Minute))}} // also bounds the first requests of a connection
	if tg.dir != "" {
		err = a.open(c, tg.dir)
	} else {
		var opts []kgo.Opt
		opts, err = tg.login.opts()
		c.opts = append(c.opts, opts...)
	}
	if err != nil {
		return nil, err
	}
	client, err := c.newClient()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.asker = newAsker(client)
	c.admin.SetTimeoutMillis(int32(min(tg.timeout.Milliseconds(), 1<<30)))
	ctx, cancel := context.WithTimeout(ctx, tg.timeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		if tg.dir == "" {
			err = tg.login.explain(strings.Join(tg.bootstrap, ", "), err)
		}
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// howToReach explains how to reach a cluster whose directory another process has open.
// TestDirectoryInUseShowsHowToReachItsCluster has the same lines of Go.
const howToReach = `to reach the cluster through the process that has it open, use -b HOST:PORT instead of --dir.
A program that has the cluster opens a listener for them in four lines:
    ln, err := net.Listen("tcp", "127.0.0.1:9092")
    server := kafka.NewServer(cluster, kafka.Config{})
    go server.Serve(cluster.Backend().Controller(), ln)
    defer server.Close() // before cluster.Close`

// asItIs is the configuration of a cluster that a command opens. Retention and compaction are the
// business of the cluster's own process, which may keep records for longer than the defaults.
func asItIs(dir string, fsys vfs.FS) strata.Config {
	return strata.Config{Dir: dir, FS: fsys, RetentionCheckInterval: log.Unlimited, CompactionInterval: log.Unlimited}
}

// openDir opens the cluster in dir.
func (a *app) openDir(dir string) (*strata.Cluster, error) {
	// In a new cluster the lock appears before other files. So only Open can find out whether
	// another process has it open. Open would create a cluster in an empty or missing directory.
	if _, err := a.fs.ReadDir(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || !a.hasCluster(dir) {
		return nil, misuse("--dir %s: the directory has no cluster; `strata serve --dir` creates one", dir)
	}
	cluster, err := strata.Open(asItIs(dir, a.fs))
	if errors.Is(err, replication.ErrLocked) {
		return nil, fmt.Errorf("%w\n%s", err, howToReach)
	}
	if e, ok := errors.AsType[*replication.DirectoryError](err); ok && e.Reason == replication.ErrMissing {
		e.Advice = "move the directories of all brokers to " + dir + ": serve may have others with --broker-dir"
		return nil, e
	}
	return cluster, err
}

// open serves dir in memory.
func (a *app) open(c *conn, dir string) error {
	cluster, err := a.openDir(dir)
	if err != nil {
		return err
	}
	c.closes = append(c.closes, cluster.Close)
	network := &memnet.Network{}
	lns, addrs := map[int32]net.Listener{}, []string{}
	for _, id := range cluster.Backend().Brokers() {
		addr := fmt.Sprintf("broker-%d.strata.invalid:9092", id)
		if lns[id], err = network.Listen(addr); err != nil {
			return errors.Join(err, c.close())
		}
		addrs = append(addrs, addr)
	}
	server := kafka.NewServer(cluster, kafka.Config{Authorization: everything, Logger: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	ended := make(chan error, 1)
	go func() { ended <- server.ServeAll(lns) }()
	c.closes = append(c.closes, func() error {
		err := server.Close()
		if serr := <-ended; !errors.Is(serr, kafka.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return err
	})
	c.opts = append(c.opts, kgo.SeedBrokers(addrs...), kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return network.Dial(ctx, "tcp", addr)
	}))
	return nil
}

// everything gives the command all permissions, whatever the cluster's access control entries: a
// user with access to the directory could change them anyway.
var everything = kafka.Authorization{Enabled: true, SuperUsers: []string{kafka.Anonymous().String()}}

// newClient returns a client of the target. close closes it.
func (c *conn) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(c.opts[:len(c.opts):len(c.opts)], opts...)...)
	if err == nil {
		c.closes = append(c.closes, func() error { client.CloseAllowingRebalance(); return nil })
	}
	return client, err
}

func (c *conn) close() (err error) {
	for i := len(c.closes) - 1; i >= 0; i-- {
		err = errors.Join(err, c.closes[i]())
	}
	c.closes = nil
	return err
}

// with returns RunE of a command that uses a target.
func (a *app) with(tg *target, fn func(ctx context.Context, c *conn, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) (err error) {
		if err := tg.fill(a.say); err != nil {
			return err
		}
		if tg.timeout <= 0 {
			return misuse("--timeout %s: must be above 0", tg.timeout)
		}
		c, err := a.connect(ctx, tg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		return named(fn(ctx, c, args), args)
	})
}

// bounded returns a context that ends after the target's timeout.
func (tg *target) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, tg.timeout, fmt.Errorf("no answer within %s", tg.timeout))
}
