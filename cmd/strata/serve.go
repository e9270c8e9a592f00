package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

type serveOptions struct {
	dir, logLevel                   string
	memory, allowPublic, autoCreate bool
	lenient                         bool
	brokers                         brokerOptions
	security                        securityOptions
	authorization                   kafka.Authorization
	superUsers                      []string // lists of them
	set                             []string
}

func (a *app) serveCmd() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Be a Kafka broker for any client, or several",
		Long: "serve is a Kafka broker over a directory, or in memory. When it serves it prints one line that begins with \"ready\" and has the address\n" +
			"that clients shall use, or the addresses of all brokers with commas between them. It stops in order on SIGTERM or SIGINT, and at once on a second one. `strata backup` copies the\n" +
			"directory while it is served.\n\n" +
			"With --brokers N it is N brokers in one process, each with a directory (--dir/broker-ID, or --broker-dir), a rack if wanted, and a port:\n" +
			"that of --listen and those that follow. A partition is on one of them, and not there while that one is not. Without --brokers those\n" +
			"are served that have a directory. One whose directory cannot be used is left out, with a warning.\n\n" +
			"An acknowledged record is on stable storage, unless --set flush.messages says otherwise. Topics are created when clients first ask for\n" +
			"them. Addresses that other machines reach are refused without --allow-public, unless clients authenticate: with --users by SASL\n" +
			"PLAIN or SCRAM, with --tls-client-ca by certificates.\n\n" +
			"--set takes topic settings, as defaults for all topics, by Kafka's name for topics or brokers (retention.ms, log.retention.hours), and\n" +
			"the broker settings " + brokerKeyNames() + ".\n\n" +
			"Every flag can be in the environment instead: --listen as $STRATA_SERVE_LISTEN, --lenient-replication as $STRATA_SERVE_LENIENT_REPLICATION.\n" +
			"Of those that may be repeated each line is one.",
		Example: "  strata serve --listen 127.0.0.1:9092 --dir data\n" +
			"  strata serve --listen 127.0.0.1:9092 --dir data --brokers 3 --rack a,b,c     # on ports 9092, 9093, 9094\n" +
			"  strata serve --dir data --brokers 2 --broker-dir 2=/disk2/data\n" +
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
	c.PreRunE = func(c *cobra.Command, _ []string) error { return serveEnvironment(c.Flags()) }
	f := c.Flags()
	f.StringSliceVar(&o.brokers.listen, "listen", []string{"127.0.0.1:0"}, "address to listen on; port 0: any free one. Of several brokers that of broker 1, or one for each")
	f.StringVar(&o.dir, "dir", "", "directory to keep everything in; created if there is none")
	f.BoolVar(&o.memory, "memory", false, "keep everything in memory")
	f.StringSliceVar(&o.brokers.advertise, "advertise", nil, "address that clients are told, HOST:PORT, if it is not the one listened on. Of several brokers that of broker 1, or one for each")
	f.IntVar(&o.brokers.count, "brokers", 0, "number of brokers, with the ids 1 to that; 0: those that have a directory, one if there are none")
	f.StringSliceVar(&o.brokers.racks, "rack", nil, "the rack of each broker, in the order of their ids")
	f.StringArrayVar(&o.brokers.dirs, "broker-dir", nil, "a broker's own directory, ID=DIR, instead of one in --dir; may be repeated")
	f.BoolVar(&o.autoCreate, "auto-create", true, "create topics when clients first ask for them")
	o.security.flags(f)
	f.BoolVar(&o.lenient, "lenient-replication", false, "a topic that is to have more replicas than there are brokers gets as many as there are")
	f.BoolVar(&o.allowPublic, "allow-public", false, "serve addresses that other machines reach to whoever comes")
	f.BoolVar(&o.authorization.Enabled, "authorize", false, "authorize every request by the cluster's access control entries (strata acls)")
	f.StringArrayVar(&o.superUsers, "super-users", nil, "with --authorize: who may do anything, as User:admin; several with commas or, as in Kafka, semicolons. Of a client with a certificate that is its whole name, as User:CN=alice,OU=dev")
	f.BoolVar(&o.authorization.AllowEveryoneIfNoACL, "allow-everyone-if-no-acl-found", false, "with --authorize: allow everybody what no entry is about")
	f.StringArrayVar(&o.set, "set", nil, "a setting, key=value; may be repeated")
	f.StringVar(&o.logLevel, "log-level", "warn", "what is logged to standard error: debug, info, warn, error")
	c.MarkFlagsOneRequired("dir", "memory")
	c.MarkFlagsMutuallyExclusive("dir", "memory")
	return c
}

// serveEnvironment sets flags that were not given as the environment says. Where everything is kept
// is one thing: a flag that says so goes before both.
func serveEnvironment(f *pflag.FlagSet) (err error) {
	kept := f.Changed("dir") || f.Changed("memory")
	f.VisitAll(func(flag *pflag.Flag) {
		name := envOf("serve-" + flag.Name)
		v := os.Getenv(name)
		if v == "" || flag.Changed || err != nil || kept && (flag.Name == "dir" || flag.Name == "memory") {
			return
		}
		values := []string{v}
		if flag.Value.Type() == "stringArray" {
			values = strings.Split(strings.TrimSpace(v), "\n")
		}
		for _, v := range values {
			if serr := f.Set(flag.Name, strings.TrimSpace(v)); serr != nil {
				err = misuse("$%s: %v", name, errors.Unwrap(serr))
			}
		}
	})
	return err
}

// check refuses options that cannot be meant.
func (o *serveOptions) check() error {
	if o.brokers.count < 0 {
		return misuse("--brokers %d: it is at least 0", o.brokers.count)
	}
	if o.memory == (o.dir != "") {
		return misuse("one of --dir and --memory says where everything is kept")
	}
	if !o.authorization.Enabled && (len(o.superUsers) > 0 || o.authorization.AllowEveryoneIfNoACL) {
		return misuse("--super-users and --allow-everyone-if-no-acl-found say nothing without --authorize")
	}
	for _, one := range o.superUsers {
		users, err := parseSuperUsers(one)
		if err != nil {
			return err
		}
		o.authorization.SuperUsers = append(o.authorization.SuperUsers, users...)
	}
	return o.security.check()
}

// betweenSuperUsers is what is between one user and the next. The name of a certificate has commas
// of its own.
var betweenSuperUsers = regexp.MustCompile(`\s*[,;]\s*(User:)`)

// parseSuperUsers returns the principals of a list. Whoever mistypes one locks out who was meant:
// so there is none that cannot be meant, as of a type that no client has.
func parseSuperUsers(list string) ([]string, error) {
	users := strings.Split(betweenSuperUsers.ReplaceAllString(strings.TrimSpace(list), "\n$1"), "\n")
	for _, user := range users {
		name, ok := strings.CutPrefix(user, "User:")
		switch {
		case !ok || name == "":
			return nil, misuse("--super-users %q: it is User:NAME", user)
		case name == "*":
			return nil, misuse("--super-users User:*: it is the name of one user each; without --authorize everybody may do anything")
		case strings.ContainsAny(name, ",;") && !strings.Contains(name, "="):
			return nil, misuse("--super-users %q: it is User:NAME of each", user)
		}
	}
	return users, nil
}

// configs returns what the options say of the cluster and of its server.
func (o *serveOptions) configs(logger *slog.Logger) (ccfg strata.Config, kcfg kafka.Config, err error) {
	ccfg = strata.Config{Dir: o.dir, Brokers: o.brokers.count, Logger: logger}
	kcfg = kafka.Config{Logger: logger, NoAutoCreate: !o.autoCreate, LenientReplication: o.lenient, AllowPublic: o.allowPublic, Authorization: o.authorization}
	if err = applySettings(&ccfg, &kcfg, o.set); err != nil {
		return ccfg, kcfg, err
	}
	if kcfg.DelegationTokens, err = o.security.delegation(); err != nil {
		return ccfg, kcfg, err
	}
	if kcfg.Security, err = o.security.security(logger); err != nil {
		return ccfg, kcfg, err
	}
	ccfg.BrokerSpecs, err = o.brokers.specs(o.memory)
	return ccfg, kcfg, err
}

// listeners opens the brokers' listeners, which other machines reach only where somebody asks who
// comes, or nobody wants that.
func (o *serveOptions) listeners(ids []int32) (map[int32]net.Listener, error) {
	lns, err := o.brokers.openListeners(ids)
	if err != nil {
		return nil, err
	}
	for _, ln := range lns {
		if t, ok := ln.Addr().(*net.TCPAddr); ok && !o.allowPublic && !o.security.authenticates() && !t.IP.IsLoopback() {
			return nil, errors.Join(misuse("--listen %s: other machines reach that address, and there is no authentication; --allow-public serves it all the same", ln.Addr()), closeListeners(lns))
		}
	}
	return lns, nil
}

// serve serves until a signal comes, ctx ends or the listener fails.
func (a *app) serve(ctx context.Context, o serveOptions, signals <-chan os.Signal) error {
	if err := o.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return misuse("--log-level %s: it is debug, info, warn or error", o.logLevel)
	}
	logger := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	ccfg, kcfg, err := o.configs(logger)
	if err != nil {
		return err
	}
	ids := o.brokers.ids(o.dir, ccfg.BrokerSpecs)
	told, err := o.brokers.advertised(ids)
	if err != nil {
		return err
	}
	kcfg.Advertise = advertiser(told)
	lns, err := o.listeners(ids)
	if err != nil {
		return err
	}
	cluster, err := strata.Open(ccfg)
	if err != nil {
		return errors.Join(err, closeListeners(lns))
	}
	users, err := o.applyUsers(ctx, cluster)
	if err != nil {
		return errors.Join(err, closeListeners(lns), cluster.Close())
	}
	kcfg.Security.SASL = o.security.sasl(cluster)
	serving := cluster.Backend().Brokers()
	for _, id := range ids {
		if !slices.Contains(serving, id) { // its directory is not there, or has come back empty
			logger.Warn("a broker does not serve, nor do its partitions", "broker", id)
			lns[id].Close()
			delete(lns, id)
		}
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
	go func() { ended <- server.ServeAll(lns) }()
	hangups := make(chan os.Signal, 1)
	if users != nil {
		signal.Notify(hangups, syscall.SIGHUP) // before anybody can know that it would not end us
		defer signal.Stop(hangups)
	}
	if err := a.ready(lns, told); err != nil {
		return errors.Join(err, stop(signals, time.Time{}, parts...))
	}
	go steer(cluster)
	signalled, err := attend(ctx, signals, hangups, ended, func(ctx context.Context) {
		if err := users.apply(ctx, cluster); err != nil && ctx.Err() == nil {
			logger.Warn("the users of the file cannot all be used", "err", err)
		}
	})
	return errors.Join(err, stop(signals, signalled, parts...))
}

// steer does nothing but in a build with the tag referee, for tests that stop one broker of
// several: there it reads from standard input what to do with the cluster, and tells on standard
// output what came of it.
var steer = func(*strata.Cluster) {}

// applyUsers gives the cluster the users of the file; nil: there is none.
func (o *serveOptions) applyUsers(ctx context.Context, cluster *strata.Cluster) (*fileUsers, error) {
	if o.security.users == "" {
		return nil, nil
	}
	users, err := newFileUsers(o.security.users, o.dir)
	if err != nil {
		return nil, err
	}
	return users, users.apply(ctx, cluster)
}

// attend waits until a signal comes, and returns when that was, ctx ends, or serving does, with its
// error. Meanwhile it has reread called at each hangup. Where that blocks, as on a disk that is
// gone, it does not hold up the end.
func attend(ctx context.Context, signals, hangups <-chan os.Signal, ended <-chan error, reread func(context.Context)) (signalled time.Time, err error) {
	rereading, cancel := context.WithCancel(ctx)
	defer cancel()
	next, through := hangups, make(chan struct{}, 1)
	for {
		select {
		case err := <-ended: // before anybody asked for it
			return time.Time{}, err
		case <-signals:
			return time.Now(), nil
		case <-ctx.Done():
			return time.Time{}, nil
		case <-next:
			next = nil // one after the other
			go func() {
				reread(rereading)
				through <- struct{}{}
			}()
		case <-through:
			next = hangups
		}
	}
}

// ready says that the brokers are served: told has what clients
// are told of each, nil: where it listens.
func (a *app) ready(lns map[int32]net.Listener, told map[int32]string) error {
	var addresses, listening []string
	for _, id := range slices.Sorted(maps.Keys(lns)) {
		at := lns[id].Addr().String()
		listening = append(listening, at)
		// what the server tells clients then
		if t, ok := lns[id].Addr().(*net.TCPAddr); ok && t.IP.IsUnspecified() {
			at = net.JoinHostPort("localhost", strconv.Itoa(t.Port))
		}
		if told != nil {
			at = told[id]
		}
		addresses = append(addresses, at)
	}
	if err := a.emit(readyLine{"ready", strings.Join(addresses, ","), strings.Join(listening, ",")}); err != nil {
		return err
	}
	return a.w.Flush()
}

type readyLine struct {
	Type    string `json:"type"`
	Address string `json:"address"` // for clients; of several brokers with commas between them
	Listen  string `json:"listen"`  // likewise
}

func (l readyLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "ready %s", l.Address)
	if l.Listen != l.Address {
		fmt.Fprintf(w, " listening on %s", l.Listen)
	}
	fmt.Fprintln(w)
}

// sameSignal is how long signals count as one: who ends a process group signals it twice, as GNU
// timeout does.
const sameSignal = time.Second

// errForced says that a second signal came.
var errForced = errors.New("stopped at once by a second signal; the next start recovers what was not closed")

// drainTime is how long requests under way may take when the server stops.
const drainTime = 10 * time.Second

type closer interface {
	Shutdown(ctx context.Context) error
}

// stop shuts parts down one after the other, unless another signal comes than that of a time, zero:
// none has come yet.
func stop(signals <-chan os.Signal, signalled time.Time, parts ...closer) error {
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
	for {
		select {
		case err := <-done:
			return err
		case <-signals:
			if time.Since(signalled) >= sameSignal {
				return errForced
			}
		}
	}
}

// advertiser tells clients of the given addresses; nil: of those that are listened on.
func advertiser(told map[int32]string) func(int32, net.Listener) (string, int32) {
	if told == nil {
		return nil
	}
	return func(broker int32, _ net.Listener) (string, int32) {
		host, text, _ := net.SplitHostPort(told[broker]) // checked when it was read
		port, _ := strconv.ParseUint(text, 10, 16)
		return host, int32(port)
	}
}
