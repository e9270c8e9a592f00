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

// brokerOptions select the brokers to serve, and their addresses, racks and directories.
type brokerOptions struct {
	count             int // 0: every broker that has a directory, one in a new cluster
	listen, advertise []string
	racks, dirs       []string // racks in the order of the brokers, directories as ID=DIR
}

// ids returns the sorted ids of the brokers to serve: 1 to count, or every broker with a directory.
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
		entries, _ := os.ReadDir(dir) // strata.Open returns the error
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

// specs returns the racks and directories of --rack and --broker-dir.
func (o *brokerOptions) specs(memory bool) (map[int32]replication.BrokerSpec, error) {
	specs := map[int32]replication.BrokerSpec{}
	if n := len(o.racks); n > 0 && n != max(o.count, 1) {
		return nil, misuse("--rack: %d racks for %d brokers (--brokers); give one for each", n, max(o.count, 1))
	}
	for i, rack := range o.racks {
		specs[int32(i+1)] = replication.BrokerSpec{Rack: rack}
	}
	for _, d := range o.dirs {
		number, dir, _ := strings.Cut(d, "=")
		id, err := strconv.ParseInt(number, 10, 32)
		switch {
		case err != nil || id <= 0 || dir == "":
			return nil, misuse("--broker-dir %s: must be ID=DIR", d)
		case memory:
			return nil, misuse("--broker-dir %s: cannot be used with --memory", d)
		case o.count > 0 && id > int64(o.count):
			return nil, misuse("--broker-dir %s: the brokers are 1 to %d", d, o.count)
		case specs[int32(id)].Dir != "":
			return nil, misuse("--broker-dir %s: broker %d has a directory already", d, id)
		}
		s := specs[int32(id)]
		s.Dir = filepath.Clean(dir)
		specs[int32(id)] = s
	}
	return specs, nil
}

// An addressList assigns an address to each broker. It has either the address of broker 1, from
// which broker n gets the port plus n-1, or one address for each of brokers 1 to last. The address
// of a missing broker is unused.
type addressList struct {
	flag  string // name of the flag that has the list
	given []string
	last  int32
}

// of returns the address of a broker.
func (l addressList) of(id int32) (host string, port int, err error) {
	at := l.given[0]
	if len(l.given) > 1 {
		if len(l.given) != int(l.last) {
			return "", 0, misuse("--%s: %d addresses for brokers 1 to %d; give one for each, or only that of broker 1", l.flag, len(l.given), l.last)
		}
		at = l.given[id-1]
	}
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return "", 0, misuse("--%s %s: %v", l.flag, at, err)
	}
	first, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, misuse("--%s %s: must be HOST:PORT", l.flag, at)
	}
	if port = int(first); port > 0 && len(l.given) == 1 {
		port += int(id - 1)
	}
	if port > 1<<16-1 {
		return "", 0, misuse("--%s %s: port %d of broker %d is out of range", l.flag, at, port, id)
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

// advertised returns the address of each broker that clients get: the one of --advertise, or the
// host as written in --listen with the port of the listener. The unspecified address becomes
// localhost.
func (o *brokerOptions) advertised(ids []int32, lns map[int32]net.Listener) (map[int32]string, error) {
	told, list := map[int32]string{}, addressList{"listen", o.listen, ids[len(ids)-1]}
	if len(o.advertise) > 0 {
		list.flag, list.given = "advertise", o.advertise
	}
	for _, id := range ids {
		host, port, err := list.of(id)
		if err != nil {
			return nil, err
		}
		if len(o.advertise) > 0 {
			if host == "" || port == 0 {
				return nil, misuse("--advertise %s: each must be HOST:PORT", strings.Join(o.advertise, ","))
			}
		} else {
			_, listening, err := net.SplitHostPort(lns[id].Addr().String())
			if err != nil {
				return nil, err
			}
			port, _ = strconv.Atoi(listening)
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
		}
		told[id] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return told, nil
}
