package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

type serveOptions struct {
	listen, dir, advertise, logLevel string
	memory, allowPublic, autoCreate  bool
	brokers                          int
	set                              []string
}

func (a *app) serveCmd() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Be a Kafka broker for any client",
		Long: "serve is a Kafka broker over a directory, or in memory. When it serves it prints one line that begins with \"ready\" and has the address\n" +
			"that clients shall use. It stops in order on SIGTERM or SIGINT, and at once on a second one. `strata backup` copies the\n" +
			"directory while it is served.\n\n" +
			"An acknowledged record is on stable storage, unless --set flush.messages says otherwise. Topics are created when clients first ask for\n" +
			"them. There is no authentication: addresses that other machines reach are refused without --allow-public.\n\n" +
			"--set takes topic settings, as defaults for all topics, by Kafka's name for topics or brokers (retention.ms, log.retention.hours), and\n" +
			"the broker settings " + brokerKeyNames() + ".",
		Example: "  strata serve --listen 127.0.0.1:9092 --dir data\n" +
			"  strata serve --memory                                          # nothing is kept; any free port, see the ready line\n" +
			"  strata serve --dir data --set num.partitions=6 --set retention.ms=3600000 --auto-create=false\n" +
			"  strata serve --memory --listen 0.0.0.0:9092 --allow-public --advertise broker:9092    # in a container",
		Args: cobra.NoArgs,
	}
	c.RunE = a.do(func(ctx context.Context, _ []string) error {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		return a.serve(ctx, o, signals)
	})
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen on; port 0: any free one")
	f.StringVar(&o.dir, "dir", "", "directory to keep everything in; created if there is none")
	f.BoolVar(&o.memory, "memory", false, "keep everything in memory")
	f.StringVar(&o.advertise, "advertise", "", "address that clients are told, HOST:PORT, if it is not the one listened on")
	f.IntVar(&o.brokers, "brokers", 1, "number of brokers; this version runs one")
	f.BoolVar(&o.autoCreate, "auto-create", true, "create topics when clients first ask for them")
	f.BoolVar(&o.allowPublic, "allow-public", false, "serve addresses that other machines reach, without authentication")
	f.StringArrayVar(&o.set, "set", nil, "a setting, key=value; may be repeated")
	f.StringVar(&o.logLevel, "log-level", "warn", "what is logged to standard error: debug, info, warn, error")
	c.MarkFlagsOneRequired("dir", "memory")
	c.MarkFlagsMutuallyExclusive("dir", "memory")
	return c
}

// serve serves until a signal comes, ctx ends or the listener fails.
func (a *app) serve(ctx context.Context, o serveOptions, signals <-chan os.Signal) (err error) {
	if o.brokers != 1 {
		return misuse("--brokers %d: this version runs one broker", o.brokers)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return misuse("--log-level %s: it is debug, info, warn or error", o.logLevel)
	}
	logger := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	ccfg := strata.Config{Dir: o.dir, Logger: logger}
	kcfg := kafka.Config{Logger: logger, NoAutoCreate: !o.autoCreate, AllowPublic: o.allowPublic}
	if err := applySettings(&ccfg, &kcfg, o.set); err != nil {
		return err
	}
	if kcfg.Advertise, err = advertise(o.advertise); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	if t, ok := ln.Addr().(*net.TCPAddr); ok && !o.allowPublic && !t.IP.IsLoopback() {
		return errors.Join(misuse("--listen %s: other machines reach that address, and there is no authentication; --allow-public serves it all the same", o.listen), ln.Close())
	}
	cluster, err := strata.Open(ccfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if ids := cluster.Backend().Brokers(); len(ids) > 1 {
		return errors.Join(misuse("--dir %s: it has brokers %v, this version serves one", o.dir, ids), ln.Close(), cluster.Close())
	}
	server := kafka.NewServer(cluster, kcfg)
	parts := []closer{server}
	if o.dir != "" {
		if socket, err := listenForBackups(cluster, o.dir); err == nil {
			parts = append(parts, socket)
		} else { // perhaps the path is too long for a socket
			logger.Warn("no backups while this is served", "err", err)
		}
	}
	parts = append(parts, cluster)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(cluster.Controller(), ln) }()
	if err := a.ready(ln, o.advertise); err != nil {
		return errors.Join(err, stop(signals, parts...))
	}
	select {
	case err = <-ended: // before anybody asked for it
	case <-signals:
	case <-ctx.Done():
	}
	return errors.Join(err, stop(signals, parts...))
}

func (a *app) ready(ln net.Listener, advertised string) error {
	if advertised == "" {
		advertised = ln.Addr().String()
		if t, ok := ln.Addr().(*net.TCPAddr); ok && t.IP.IsUnspecified() { // what the server tells clients then
			advertised = net.JoinHostPort("localhost", strconv.Itoa(t.Port))
		}
	}
	if err := a.emit(readyLine{"ready", advertised, ln.Addr().String()}); err != nil {
		return err
	}
	return a.w.Flush()
}

type readyLine struct {
	Type    string `json:"type"`
	Address string `json:"address"` // for clients
	Listen  string `json:"listen"`
}

func (l readyLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "ready %s", l.Address)
	if l.Listen != l.Address {
		fmt.Fprintf(w, " listening on %s", l.Listen)
	}
	fmt.Fprintln(w)
}

// errForced says that a second signal came.
var errForced = errors.New("stopped at once by a second signal; the next start recovers what was not closed")

// drainTime is how long requests under way may take when the server stops.
const drainTime = 10 * time.Second

type closer interface {
	Shutdown(ctx context.Context) error
}

// stop shuts parts down one after the other, unless another signal comes.
func stop(signals <-chan os.Signal, parts ...closer) error {
	done := make(chan error, 1)
	go func() {
		var errs []error
		for i, p := range parts {
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if i == 0 {
				ctx, cancel = context.WithTimeout(ctx, drainTime)
			}
			errs = append(errs, p.Shutdown(ctx))
			cancel()
		}
		done <- errors.Join(errs...)
	}()
	select {
	case err := <-done:
		return err
	case <-signals:
		return errForced
	}
}

// advertise returns what tells clients where to go; nil for the listener's own address.
func advertise(addr string) (func(int32, net.Listener) (string, int32), error) {
	if addr == "" {
		return nil, nil
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, misuse("--advertise %s: %v", addr, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || host == "" {
		return nil, misuse("--advertise %s: it is HOST:PORT", addr)
	}
	return func(int32, net.Listener) (string, int32) { return host, int32(port) }, nil
}
