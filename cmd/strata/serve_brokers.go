package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/replication"
)

// brokerOptions say which brokers are served, and where each of them is.
type brokerOptions struct {
	count             int // 0: those that have a directory, one in a new cluster
	listen, advertise []string
	racks, dirs       []string // racks in the order of the brokers, directories as ID=DIR
}

// ids returns the brokers to serve, in order: those asked for, or those that have a directory.
func (o *brokerOptions) ids(dir string, specs map[int32]replication.BrokerSpec) []int32 {
	var ids []int32
	for id := int32(1); id <= int32(o.count); id++ {
		ids = append(ids, id)
	}
	if o.count > 0 {
		return ids
	}
	for id := range specs {
		ids = append(ids, id)
	}
	if dir != "" {
		entries, _ := os.ReadDir(dir) // one that cannot be read is for the cluster to refuse
		for _, e := range entries {
			number, is := strings.CutPrefix(e.Name(), "broker-")
			if id, err := strconv.ParseInt(number, 10, 32); is && err == nil && id > 0 {
				ids = append(ids, int32(id))
			}
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		ids = []int32{1}
	}
	return ids
}

// specs returns what --rack and --broker-dir say of each broker.
func (o *brokerOptions) specs(memory bool) (map[int32]replication.BrokerSpec, error) {
	specs := map[int32]replication.BrokerSpec{}
	if n := len(o.racks); n > 0 && n != max(o.count, 1) {
		return nil, misuse("--rack: %d racks for %d brokers; it has one for each, and --brokers says how many there are", n, max(o.count, 1))
	}
	for i, rack := range o.racks {
		specs[int32(i+1)] = replication.BrokerSpec{Rack: rack}
	}
	for _, d := range o.dirs {
		number, dir, _ := strings.Cut(d, "=")
		id, err := strconv.ParseInt(number, 10, 32)
		switch {
		case err != nil || id <= 0 || dir == "":
			return nil, misuse("--broker-dir %s: it is ID=DIR", d)
		case memory:
			return nil, misuse("--broker-dir %s: with --memory there are no directories", d)
		case o.count > 0 && id > int64(o.count):
			return nil, misuse("--broker-dir %s: there are %d brokers", d, o.count)
		case specs[int32(id)].Dir != "":
			return nil, misuse("--broker-dir %s: broker %d has a directory already", d, id)
		}
		s := specs[int32(id)]
		s.Dir = filepath.Clean(dir)
		specs[int32(id)] = s
	}
	return specs, nil
}

// An addressList gives each broker an address: that of broker 1 with the ports that follow, or one
// for each of brokers 1 to last. A broker that is not there leaves its address free.
type addressList struct {
	flag  string // that it was given by
	given []string
	last  int32
}

// of returns the address of a broker.
func (l addressList) of(id int32) (host string, port int, err error) {
	at := l.given[0]
	if len(l.given) > 1 {
		if len(l.given) != int(l.last) {
			return "", 0, misuse("--%s: %d addresses for brokers 1 to %d; it has one for each, or that of broker 1", l.flag, len(l.given), l.last)
		}
		at = l.given[id-1]
	}
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return "", 0, misuse("--%s %s: %v", l.flag, at, err)
	}
	first, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, misuse("--%s %s: it is HOST:PORT", l.flag, at)
	}
	if port = int(first); port > 0 && len(l.given) == 1 {
		port += int(id - 1)
	}
	if port > 1<<16-1 {
		return "", 0, misuse("--%s %s: there is no port %d for broker %d", l.flag, at, port, id)
	}
	return host, port, nil
}

// openListeners opens the listeners of the brokers, all or none.
func (o *brokerOptions) openListeners(ids []int32) (map[int32]net.Listener, error) {
	lns := map[int32]net.Listener{}
	for _, id := range ids {
		host, port, err := addressList{"listen", o.listen, ids[len(ids)-1]}.of(id)
		var ln net.Listener
		if err == nil {
			ln, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		}
		if err != nil {
			return nil, errors.Join(err, closeListeners(lns))
		}
		lns[id] = ln
	}
	return lns, nil
}

func closeListeners(lns map[int32]net.Listener) error {
	var errs []error
	for _, ln := range lns {
		errs = append(errs, ln.Close())
	}
	return errors.Join(errs...)
}

// advertised returns what clients are told of each broker; nil: where it listens.
func (o *brokerOptions) advertised(ids []int32) (map[int32]string, error) {
	if len(o.advertise) == 0 {
		return nil, nil
	}
	told := map[int32]string{}
	for _, id := range ids {
		host, port, err := addressList{"advertise", o.advertise, ids[len(ids)-1]}.of(id)
		if err != nil {
			return nil, err
		}
		if host == "" || port == 0 {
			return nil, misuse("--advertise %s: each is HOST:PORT", strings.Join(o.advertise, ","))
		}
		told[id] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return told, nil
}
