package replication

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Invalid requests are rejected with an error that names the cause. The metadata, the leaders and
// the bytes on all disks stay unchanged.
func TestBadInputChangesNothing(t *testing.T) {
	ds := newDisks(4)
	other := newDisks(1)
	c, err := Open(other.config())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	foreign := vfs.Mem()
	require.NoError(t, foreign.MkdirAll("d", 0o755))
	require.NoError(t, vfs.WriteFile(foreign, "d/photos.db", []byte("of somebody")))

	cfg := ds.config()
	c = openWith(t, cfg)
	create(t, c, "orders", 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	// Broker 4 is down. Broker 9 was removed, and its directory still exists.
	require.NoError(t, c.StopBroker(t.Context(), 4))
	gone := vfs.Mem()
	_, err = c.AddBroker(t.Context(), 9, BrokerSpec{FS: gone, Dir: "nine"})
	require.NoError(t, err)
	require.NoError(t, c.RemoveBroker(t.Context(), 9))

	create := func(cfg topic.Config) func(context.Context) error {
		return func(ctx context.Context) error { return c.CreateTopic(ctx, "new", cfg) }
	}
	grow := func(total int, assignment ...[]int32) func(context.Context) error {
		return func(ctx context.Context) error { return c.AddPartitions(ctx, "orders", total, assignment...) }
	}
	start := func(id int32) func(context.Context) error {
		return func(ctx context.Context) error { return c.StartBroker(ctx, id) }
	}
	stop := func(id int32) func(context.Context) error {
		return func(ctx context.Context) error { return c.StopBroker(ctx, id) }
	}
	kill := func(id int32) func(context.Context) error {
		return func(context.Context) error { return c.KillBroker(id) }
	}
	remove := func(id int32) func(context.Context) error {
		return func(ctx context.Context) error { return c.RemoveBroker(ctx, id) }
	}
	lost := func(id int32) func(context.Context) error {
		return func(ctx context.Context) error { return c.RemoveLostBroker(ctx, id) }
	}
	add := func(id int32, spec BrokerSpec) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.AddBroker(ctx, id, spec)
			return err
		}
	}
	by := func(assignment ...[]int32) topic.Config { return topic.Config{Assignment: assignment} }
	every := append(ds[:4:4], other[0], foreign, gone)
	said := func() (s string) {
		s = fmt.Sprint(c.MetadataVersion(), c.Brokers(), c.Members(), c.Controller(), names(t, c), leaders(t, c, "orders"))
		for _, d := range every {
			s += fmt.Sprint(" ", d.Count(vfs.OpChange))
		}
		return s
	}
	before := said()
	for name, tc := range map[string]struct {
		call func(context.Context) error
		want error
	}{
		"an assignment to an unknown broker":      {create(by([]int32{7})), ErrUnknownBroker},
		"an assignment to broker 0":               {create(by([]int32{0})), ErrInvalidAssignment},
		"an assignment to a broker that is down":  {create(by([]int32{4})), ErrInvalidAssignment},
		"an assignment of nothing":                {create(by([]int32{})), ErrInvalidReplicationFactor},
		"an assignment of no partitions":          {create(topic.Config{Assignment: [][]int32{}}), ErrInvalidAssignment},
		"an assignment with holes":                {create(by([]int32{1}, nil)), ErrInvalidAssignment},
		"a broker twice":                          {create(by([]int32{1, 1})), ErrInvalidAssignment},
		"an assignment of other numbers":          {create(topic.Config{Partitions: 2, Assignment: [][]int32{{1}}}), ErrInvalidAssignment},
		"more replicas than brokers":              {create(topic.Config{ReplicationFactor: 5}), ErrInvalidReplicationFactor},
		"fewer replicas than one":                 {create(topic.Config{ReplicationFactor: -1}), ErrInvalidReplicationFactor},
		"fewer partitions than one":               {create(topic.Config{Partitions: -1}), ErrInvalidPartitions},
		"more partitions on an unknown broker":    {grow(4, []int32{7}), ErrUnknownBroker},
		"more partitions, assigned to too few":    {grow(5, []int32{1}), ErrInvalidAssignment},
		"more partitions with other replicas":     {grow(4, []int32{1, 2}), ErrInvalidAssignment},
		"fewer partitions":                        {grow(2), ErrInvalidPartitions},
		"the start of a broker that runs":         {start(2), ErrBrokerRunning},
		"the start of the controller":             {start(c.Controller()), ErrBrokerRunning},
		"the start of an unknown broker":          {start(7), ErrUnknownBroker},
		"the start of broker 0":                   {start(0), ErrUnknownBroker},
		"the stop of a broker that is down":       {stop(4), ErrBrokerDown},
		"the stop of an unknown broker":           {stop(7), ErrUnknownBroker},
		"the stop of a negative broker":           {stop(-1), ErrUnknownBroker},
		"the kill of a broker that is down":       {kill(4), ErrBrokerDown},
		"the kill of an unknown broker":           {kill(7), ErrUnknownBroker},
		"the removal of an unknown broker":        {remove(7), ErrUnknownBroker},
		"the removal of one with replicas":        {remove(2), ErrHoldsReplicas},
		"a running broker given up":               {lost(2), ErrBrokerRunning},
		"an unknown broker given up":              {lost(7), ErrUnknownBroker},
		"a broker again":                          {add(2, BrokerSpec{FS: vfs.Mem(), Dir: "x"}), ErrBrokerExists},
		"a broker again that is down":             {add(4, BrokerSpec{FS: vfs.Mem(), Dir: "x"}), ErrBrokerExists},
		"a negative broker":                       {add(-3, BrokerSpec{FS: vfs.Mem(), Dir: "x"}), ErrUnknownBroker},
		"a broker on another one's directory":     {add(5, BrokerSpec{FS: ds[1], Dir: "data/broker-2"}), ErrSharedDirectory},
		"a broker on a former one's directory":    {add(5, BrokerSpec{FS: gone, Dir: "nine"}), ErrForeign},
		"a broker on a directory of somebody":     {add(5, BrokerSpec{FS: foreign, Dir: "d"}), ErrForeign},
		"a broker on another cluster's directory": {add(5, BrokerSpec{FS: other[0], Dir: "data/broker-1"}), ErrForeign},
		"settings of an unknown broker": {func(ctx context.Context) error {
			return c.AlterBrokerConfig(ctx, 7, ConfigChange{Key: "log.retention.ms", Value: "1"})
		}, ErrUnknownBroker},
		"a view of an unknown broker": {func(ctx context.Context) error {
			res := make(chan error, 1)
			c.View(7).Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: batch("y"), Done: func(r partition.ProduceResult) { res <- r.Err }})
			return <-res
		}, ErrNotLeader},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, tc.call(t.Context()), tc.want)
			require.Equal(t, before, said())
		})
	}
	require.NoError(t, c.StartBroker(t.Context(), 4), "and everything goes on")
	produce(t, c, at("orders", 1), "y")
}

// A broker directory of another cluster is refused also while the cluster runs.
func TestRunningClusterRefusesABrokerOfAnotherCluster(t *testing.T) {
	other, ds := newDisks(3), newDisks(2)
	for _, d := range []disks{other, ds} {
		c, err := Open(d.config())
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	c := openWith(t, ds.config())
	before, version := other[2].Count(vfs.OpWrite), c.MetadataVersion()
	_, err := c.AddBroker(t.Context(), 3, BrokerSpec{FS: other[2], Dir: "data/broker-3"})
	require.ErrorIs(t, err, ErrMixed)
	require.ErrorAs(t, err, new(*DirectoryError))
	require.Equal(t, before, other[2].Count(vfs.OpWrite), "nothing was written to it")
	require.Equal(t, version, c.MetadataVersion())
	require.Equal(t, []int32{1, 2}, c.Members())
	require.NoError(t, openWith(t, other.config()).Close(), "it is as it was")
}

// A negative number in a configuration is refused by the name of its field, and nothing is
// written. Broker specs whose directories conflict are refused as well.
func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	refused := func(t *testing.T, cfg Config) (err error) {
		disk := vfs.Mem()
		cfg.FS, cfg.Dir = disk, "data"
		for id, spec := range cfg.BrokerSpecs {
			spec.FS = disk
			cfg.BrokerSpecs[id] = spec
		}
		_, err = Open(cfg)
		require.Error(t, err)
		require.Zero(t, disk.Count(vfs.OpChange))
		return err
	}
	numbers := 0
	for i := range reflect.TypeFor[Config]().NumField() {
		var cfg Config
		field, name := reflect.ValueOf(&cfg).Elem().Field(i), reflect.TypeFor[Config]().Field(i).Name
		if !field.CanInt() || !field.CanSet() {
			continue
		}
		numbers++
		field.SetInt(-5) // -1 is log.Unlimited, which is valid in some fields
		t.Run(name, func(t *testing.T) {
			var because *topic.ConfigError
			require.ErrorAs(t, refused(t, cfg), &because)
			require.Equal(t, name, because.Key)
			require.Contains(t, because.Value, "-5")
		})
	}
	require.Greater(t, numbers, 9)
	in := func(dirs ...string) Config {
		cfg := Config{Brokers: 3, BrokerSpecs: map[int32]BrokerSpec{}}
		for i, dir := range dirs {
			cfg.BrokerSpecs[int32(i+1)] = BrokerSpec{Dir: dir}
		}
		return cfg
	}
	for name, tc := range map[string]struct {
		cfg  Config
		want error
	}{
		"an unknown selector":               {Config{ReplicaSelector: 77}, nil},
		"no partitions":                     {Config{Defaults: topic.Config{Partitions: -1}}, ErrInvalidPartitions},
		"no replicas":                       {Config{Defaults: topic.Config{ReplicationFactor: -1}}, ErrInvalidReplicationFactor},
		"a thousand and one brokers":        {Config{Brokers: 1001}, ErrTooManyBrokers},
		"a spec of nobody":                  {Config{BrokerSpecs: map[int32]BrokerSpec{0: {}}}, ErrUnknownBroker},
		"a broker in the other's":           {in("x", "x/y"), ErrSharedDirectory},
		"the other in the broker's":         {in("x/y", "x"), ErrSharedDirectory},
		"deep inside":                       {in("x", "./z/../x/a/b/c"), ErrSharedDirectory},
		"the same by another name":          {in("x/y", "x/z/../y"), ErrSharedDirectory},
		"what the others are in by default": {in("data"), ErrSharedDirectory},
		"inside of one by default":          {in("data/broker-2/x"), ErrSharedDirectory},
		"everything":                        {in("/"), ErrSharedDirectory},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t, tc.cfg)
			if tc.want == nil {
				require.ErrorAs(t, err, new(*topic.ConfigError))
			} else {
				require.ErrorIs(t, err, tc.want)
			}
		})
	}
	c, err := Open(Config{FS: vfs.Mem(), Dir: "data", Brokers: 2, BrokerSpecs: map[int32]BrokerSpec{1: {Dir: "x"}, 2: {Dir: "xy"}}})
	require.NoError(t, err, "names that only begin alike")
	_, err = c.AddBroker(t.Context(), 0, BrokerSpec{Dir: "xy/z"})
	require.ErrorIs(t, err, ErrSharedDirectory)
	id, err := c.AddBroker(t.Context(), 0, BrokerSpec{Dir: "z"})
	require.NoError(t, err)
	require.Equal(t, int32(3), id)
	require.NoError(t, c.Close())
}

// A symbolic link places the directory of one broker inside the directory of another.
func TestBrokerInAnothersDirectoryByALinkIsRefused(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.Mkdir(at("one"), 0o755))
	require.NoError(t, os.Symlink(at("one"), at("link")))
	_, err := Open(Config{Dir: at("data"), BrokerSpecs: map[int32]BrokerSpec{1: {Dir: at("one")}, 2: {Dir: at("link/two")}}})
	require.ErrorIs(t, err, ErrSharedDirectory)
	entries, err := os.ReadDir(at("one"))
	require.NoError(t, err)
	require.Empty(t, entries)
}
