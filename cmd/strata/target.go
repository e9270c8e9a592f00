package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/kafka"
)

// A target is what a command talks to: brokers at some address, or a directory that nobody serves,
// which is then served in memory for the time of the command. Either way it is Kafka's protocol.
type target struct {
	bootstrap []string
	dir       string
	timeout   time.Duration
	login     login
	config    string         // file with settings
	set       *pflag.FlagSet // of the command
}

// flags adds the flags that name a target.
func (tg *target) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVarP(&tg.bootstrap, "bootstrap", "b", nil, "address of a broker, HOST:PORT; several with commas; without it and --dir: $"+bootstrapEnv+", or that of the configuration file")
	f.StringVar(&tg.dir, "dir", "", "directory of a cluster that nobody serves")
	f.DurationVar(&tg.timeout, "timeout", 10*time.Second, "how long the target may take to answer")
	f.StringVar(&tg.config, "config", "", "`file` with lines name = value, for these flags and the password; without it: $"+configEnv+", or strata/config in the directory of the user's configurations. The environment goes before it: $"+envOf("tls-ca")+", for example")
	tg.set = f
	for _, name := range append(tg.login.flags(f), "bootstrap") {
		c.MarkFlagsMutuallyExclusive(name, "dir")
	}
}

// A conn is a connection to a target.
type conn struct {
	asker
	opts   []kgo.Opt
	closes []func() error // in reverse order
}

// An asker asks brokers: with admin, or with the client below it what kadm has no call for.
type asker struct {
	client *kgo.Client
	admin  *kadm.Client
}

func newAsker(client *kgo.Client) asker { return asker{client, kadm.NewClient(client)} }

// connect reaches the target.
func (a *app) connect(ctx context.Context, tg *target) (c *conn, err error) {
	c = &conn{opts: []kgo.Opt{kgo.SeedBrokers(tg.bootstrap...), kgo.ClientID("strata"), kgo.RetryTimeout(tg.timeout)}}
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

// open serves dir in memory.
func (a *app) open(c *conn, dir string) error {
	// The files of a new cluster come later than its lock: whether it is in use Open finds out.
	if _, err := a.fs.Stat(filepath.Join(dir, "broker-1")); errors.Is(err, fs.ErrNotExist) {
		return misuse("--dir %s: no cluster is there; `strata serve --dir` makes one", dir)
	}
	cluster, err := strata.Open(strata.Config{Dir: dir, FS: a.fs})
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

// everything lets the command do all there is, its entries too: who has the directory has it all.
var everything = kafka.Authorization{Enabled: true, SuperUsers: []string{kafka.Anonymous().String()}}

// newClient returns a client of the target, which close closes.
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

// with is RunE of a command that talks to a target.
func (a *app) with(tg *target, fn func(ctx context.Context, c *conn, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) (err error) {
		if err := tg.fill(); err != nil {
			return err
		}
		if tg.timeout <= 0 {
			return misuse("--timeout %s: it must be above 0", tg.timeout)
		}
		c, err := a.connect(ctx, tg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		return named(fn(ctx, c, args), args)
	})
}

// bounded bounds one exchange with a target.
func (tg *target) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, tg.timeout, fmt.Errorf("no answer within %s", tg.timeout))
}
