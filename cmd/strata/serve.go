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
	"runtime"
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
	lenient, acceptLoss             bool
	brokers                         brokerOptions
	security                        securityOptions
	authorization                   kafka.Authorization
	superUsers                      []string // each element is a list of principals
	set                             []string
}

func (a *app) serveCmd() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run one or more Kafka brokers for any client",
		Long: "serve runs a Kafka broker on a directory, or in memory. When it is ready it prints one line: \"ready\" and the address for clients, or the\n" +
			"addresses of all brokers separated by commas. SIGTERM or SIGINT shuts it down cleanly, a second signal at once. `strata backup` copies the\n" +
			"directory while it is served.\n\n" +
			"--brokers N runs N brokers in one process. Each has a directory (--dir/broker-ID, or --broker-dir), an optional rack, and a port: the port\n" +
			"of --listen plus 0 to N-1. By default a partition has one replica, and is unavailable while that replica's broker is. Without --brokers,\n" +
			"every broker that has a directory runs. A broker with an unusable directory is left out, with a warning.\n\n" +
			"An acknowledged record is on stable storage, unless --set flush.messages allows otherwise. A topic is created when a client first requests\n" +
			"it. Addresses that other machines can reach need --allow-public, unless clients authenticate: with --users by SASL PLAIN or SCRAM, with\n" +
			"--tls-client-ca by certificates.\n\n" +
			"--set takes topic settings, as defaults for all topics, by Kafka's name for topics or brokers (retention.ms, log.retention.hours), and\n" +
			"the broker settings " + brokerKeyNames() + ".\n\n" +
			"Every flag can be set in the environment instead: --listen as $STRATA_SERVE_LISTEN, --lenient-replication as\n" +
			"$STRATA_SERVE_LENIENT_REPLICATION. Of a flag that may be repeated, each line of the variable is one value.",
		Example: "  strata serve --listen 127.0.0.1:9092 --dir data\n" +
			"  strata serve --listen 127.0.0.1:9092 --dir data --brokers 3 --rack a,b,c     # on ports 9092, 9093, 9094\n" +
			"  strata serve --dir data --brokers 2 --broker-dir 2=/disk2/data\n" +
			"  strata serve --memory                                          # nothing is stored; a free port, printed in the ready line\n" +
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
	f.StringSliceVar(&o.brokers.listen, "listen", []string{"127.0.0.1:0"}, "address to listen on; port 0: any free port. For several brokers: the address of broker 1, or one for each")
	f.StringVar(&o.dir, "dir", "", "directory of the cluster; created if it does not exist")
	f.BoolVar(&o.memory, "memory", false, "keep all data in memory")
	f.StringSliceVar(&o.brokers.advertise, "advertise", nil, "address returned to clients, HOST:PORT, if it differs from --listen. For several brokers: the address of broker 1, or one for each")
	f.IntVar(&o.brokers.count, "brokers", 0, "number of brokers, with ids from 1 on; 0: every broker that has a directory, or one broker")
	f.StringSliceVar(&o.brokers.racks, "rack", nil, "rack of each broker, in the order of broker ids")
	f.StringArrayVar(&o.brokers.dirs, "broker-dir", nil, "a broker's directory outside of --dir, ID=DIR; may be repeated")
	f.BoolVar(&o.autoCreate, "auto-create", true, "create a topic when a client first requests it")
	o.security.flags(f)
	f.BoolVar(&o.lenient, "lenient-replication", false, "reduce a replication factor above the number of brokers to that number, instead of rejecting the topic")
	f.BoolVar(&o.allowPublic, "allow-public", false, "allow addresses that other machines can reach, without authentication")
	f.BoolVar(&o.authorization.Enabled, "authorize", false, "check every request against the cluster's access control entries (strata acls)")
	f.StringArrayVar(&o.superUsers, "super-users", nil, "with --authorize: principals with all permissions, as User:admin; separated by commas or, as in Kafka, semicolons. The principal of a client with a certificate is its full name, as User:CN=alice,OU=dev")
	f.BoolVar(&o.authorization.AllowEveryoneIfNoACL, "allow-everyone-if-no-acl-found", false, "with --authorize: allow access to resources that no entry matches")
	f.BoolVar(&o.acceptLoss, "accept-metadata-loss", false, "open without half of the brokers or with an older copy of the metadata: later changes of topics, settings and users are lost, and directories of later topics are put aside")
	f.StringArrayVar(&o.set, "set", nil, "a setting, key=value; may be repeated")
	f.StringVar(&o.logLevel, "log-level", "warn", "lowest level logged to standard error: debug, info, warn, error")
	c.MarkFlagsOneRequired("dir", "memory")
	c.MarkFlagsMutuallyExclusive("dir", "memory")
	return c
}

// serveEnvironment sets flags that were not given from the environment. --dir and --memory are
// alternatives: if one is given as a flag, the variables of both are ignored.
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

// check rejects invalid options, and parses o.superUsers into o.authorization.
func (o *serveOptions) check() error {
	if o.brokers.count < 0 {
		return misuse("--brokers %d: must be at least 0", o.brokers.count)
	}
	if o.memory == (o.dir != "") {
		return misuse("give either --dir or --memory")
	}
	if !o.authorization.Enabled && (len(o.superUsers) > 0 || o.authorization.AllowEveryoneIfNoACL) {
		return misuse("--super-users and --allow-everyone-if-no-acl-found need --authorize")
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

// betweenSuperUsers is the separator between two principals. A comma alone is not: the name of a
// certificate has commas.
var betweenSuperUsers = regexp.MustCompile(`\s*[,;]\s*(User:)`)

// parseSuperUsers returns the principals of a list. It rejects a principal that no client can have,
// such as one of another type: a mistyped principal would lock out the intended one.
func parseSuperUsers(list string) ([]string, error) {
	users := strings.Split(betweenSuperUsers.ReplaceAllString(strings.TrimSpace(list), "\n$1"), "\n")
	for _, user := range users {
		name, ok := strings.CutPrefix(user, "User:")
		switch {
		case !ok || name == "":
			return nil, misuse("--super-users %q: must be User:NAME", user)
		case name == "*":
			return nil, misuse("--super-users User:*: must name one user; without --authorize all users have all permissions")
		case strings.ContainsAny(name, ",;") && !strings.Contains(name, "="):
			return nil, misuse("--super-users %q: each must be User:NAME", user)
		}
	}
	return users, nil
}

// configs returns the configurations of the cluster and of its server.
func (o *serveOptions) configs(logger *slog.Logger) (ccfg strata.Config, kcfg kafka.Config, err error) {
	ccfg = strata.Config{Dir: o.dir, Brokers: o.brokers.count, AcceptMetadataLoss: o.acceptLoss, Logger: logger}
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

// listeners opens the brokers' listeners. An address that other machines can reach is an error
// without authentication, unless it is allowed by --allow-public.
func (o *serveOptions) listeners(ids []int32) (map[int32]net.Listener, error) {
	lns, err := o.brokers.openListeners(ids)
	if err != nil {
		return nil, err
	}
	for _, ln := range lns {
		if t, ok := ln.Addr().(*net.TCPAddr); ok && !o.allowPublic && !o.security.authenticates() && !t.IP.IsLoopback() {
			return nil, errors.Join(misuse("--listen %s: other machines can reach that address, and there is no authentication; --allow-public allows that", ln.Addr()), closeListeners(lns))
		}
	}
	return lns, nil
}

// serve serves until it receives a signal, ctx ends or a listener fails.
func (a *app) serve(ctx context.Context, o serveOptions, signals <-chan os.Signal) error {
	if err := o.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return misuse("--log-level %s: must be debug, info, warn or error", o.logLevel)
	}
	logger := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	logger.Info("strata starts", "version", version(), "go", runtime.Version(), "directory", o.dir, "listen", strings.Join(o.brokers.listen, ","))
	ccfg, kcfg, err := o.configs(logger)
	if err != nil {
		return err
	}
	ids := o.brokers.ids(o.dir, ccfg.BrokerSpecs)
	lns, err := o.listeners(ids)
	if err != nil {
		return err
	}
	told, err := o.brokers.advertised(ids, lns)
	if err != nil {
		return errors.Join(err, closeListeners(lns))
	}
	kcfg.Advertise = advertiser(told)
	o.security.warn(logger)
	cluster, err := strata.Open(ccfg)
	if err != nil {
		return errors.Join(err, closeListeners(lns))
	}
	users, err := o.applyUsers(ctx, cluster)
	if err != nil {
		return errors.Join(err, closeListeners(lns), cluster.Close())
	}
	kcfg.Security.SASL = o.security.sasl(cluster)
	closeAbsent(lns, cluster.Backend().Brokers(), logger)
	server := kafka.NewServer(cluster, kcfg)
	defer limitMemory(kcfg.Limits.MemoryBytes(), cluster, o.dir != "", logger)()
	parts := []closer{server}
	if o.dir != "" {
		if socket, err := listenForBackups(cluster, o.dir); err == nil {
			parts = append(parts, socket)
		} else { // perhaps the path is too long for a socket
			logger.Warn("no backups while this cluster is served", "err", err)
		}
	}
	parts = append(parts, cluster)
	serve, err := server.Announce(lns)
	if err != nil {
		return errors.Join(err, stop(signals, time.Time{}, parts...))
	}
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	hangups := make(chan os.Signal, 1)
	if users != nil {
		signal.Notify(hangups, syscall.SIGHUP) // before the ready line: the default action of SIGHUP ends the process
		defer signal.Stop(hangups)
	}
	if err := a.ready(lns, told); err != nil {
		return errors.Join(err, stop(signals, time.Time{}, parts...))
	}
	go steer(cluster)
	signalled, err := attend(ctx, signals, hangups, ended, func(ctx context.Context) {
		warnReadable(logger, "users", o.security.users)
		if err := users.apply(ctx, cluster); err != nil && ctx.Err() == nil {
			logger.Warn("could not apply all users of the file", "err", err)
		}
	})
	return errors.Join(err, stop(signals, signalled, parts...))
}

// closeAbsent closes the listeners of brokers that do not serve, because their directories are
// missing, or were found empty.
func closeAbsent(lns map[int32]net.Listener, serving []int32, logger *slog.Logger) {
	for _, id := range slices.Sorted(maps.Keys(lns)) {
		if !slices.Contains(serving, id) {
			logger.Warn("a broker and its partitions are not served", "broker", id)
			lns[id].Close()
			delete(lns, id)
		}
	}
}

// steer does nothing, except in a build with the tag referee, for tests that stop one broker of
// several. There it reads commands from standard input and prints their results on standard output.
var steer = func(*strata.Cluster) {}

// applyUsers makes the users of the file users of the cluster. It returns nil without a file.
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

// attend waits for a signal, for the end of ctx, or for the end of serving. It returns the time of
// the signal, zero if there was none, and the error of serving. At each hangup it calls reread on
// another goroutine, one call at a time. A reread that blocks, as on a hung disk, does not delay
// the return.
func attend(ctx context.Context, signals, hangups <-chan os.Signal, ended <-chan error, reread func(context.Context)) (signalled time.Time, err error) {
	rereading, cancel := context.WithCancel(ctx)
	defer cancel()
	next, through := hangups, make(chan struct{}, 1)
	for {
		select {
		case err := <-ended: // without a signal
			return time.Time{}, err
		case <-signals:
			return time.Now(), nil
		case <-ctx.Done():
			return time.Time{}, nil
		case <-next:
			next = nil // one call at a time
			go func() {
				reread(rereading)
				through <- struct{}{}
			}()
		case <-through:
			next = hangups
		}
	}
}

// ready prints the ready line. The addresses of brokers for clients come from advertised.
func (a *app) ready(lns map[int32]net.Listener, told map[int32]string) error {
	var addresses, listening []string
	for _, id := range slices.Sorted(maps.Keys(lns)) {
		listening = append(listening, lns[id].Addr().String())
		addresses = append(addresses, told[id])
	}
	if err := a.emit(readyLine{"ready", strings.Join(addresses, ","), strings.Join(listening, ",")}); err != nil {
		return err
	}
	return a.w.Flush()
}

type readyLine struct {
	Type    string `json:"type"`
	Address string `json:"address"` // for clients; of several brokers separated by commas
	Listen  string `json:"listen"`  // likewise
}

func (l readyLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "ready %s", l.Address)
	if !sameAddresses(l.Address, l.Listen) {
		fmt.Fprintf(w, " listening on %s", l.Listen)
	}
	fmt.Fprintln(w)
}

// sameAddresses reports whether two lists name the same addresses, separated by commas. localhost
// is the same as a loopback address, so that the ready line does not depend on how it resolves.
func sameAddresses(a, b string) bool {
	return slices.EqualFunc(strings.Split(a, ","), strings.Split(b, ","), func(a, b string) bool {
		if a == b {
			return true
		}
		host, port, err := net.SplitHostPort(a)
		ip, listening, lerr := net.SplitHostPort(b)
		return errors.Join(err, lerr) == nil && host == "localhost" && port == listening && net.ParseIP(ip).IsLoopback()
	})
}

// sameSignal is the time in which signals count as one. GNU timeout, for example, signals a process
// and its group.
const sameSignal = time.Second

// errForced is returned after a second signal.
var errForced = errors.New("stopped at once by a second signal; the next start recovers the logs that were not closed")

// drainTime is the time that requests in flight get when the server stops.
const drainTime = 10 * time.Second

type closer interface {
	Shutdown(ctx context.Context) error
}

// stop shuts parts down one after the other. It returns errForced at once if a second signal
// arrives. signalled is the time of the first signal, zero if there was none.
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

// advertiser returns a function for kafka.Config.Advertise that returns the given addresses.
func advertiser(told map[int32]string) func(int32, net.Listener) (string, int32) {
	return func(broker int32, _ net.Listener) (string, int32) {
		host, text, _ := net.SplitHostPort(told[broker]) // checked when it was read
		port, _ := strconv.ParseUint(text, 10, 16)
		return host, int32(port)
	}
}
