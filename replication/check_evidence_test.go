package replication

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// CheckEvidence on a directory without running brokers finds each loss of records that an open
// would find. It does so after a close and after a kill, and changes nothing in the directory.
func TestCheckOfAStoppedClusterFindsMissingRecords(t *testing.T) {
	dir := filepath.Join(root, "orders-0")
	losses := map[string]struct {
		lose   func(disk, early *vfs.MemFS) error
		text   string
		closed bool // after a kill there is no evidence of this loss
	}{
		"nothing":   {lose: func(_, _ *vfs.MemFS) error { return nil }},
		"directory": {lose: func(disk, _ *vfs.MemFS) error { return disk.RemoveAll(dir) }, text: "the directory is missing"},
		"all files": {lose: func(disk, _ *vfs.MemFS) error { return removeIn(disk, dir, func(string) bool { return true }) }, text: "no records"},
		"files and state": {lose: func(disk, _ *vfs.MemFS) error {
			return removeIn(disk, dir, func(file string) bool { return filepath.Ext(file) == ".log" || file == "strata.state" })
		}, text: "no records"},
		"last records": {lose: func(disk, early *vfs.MemFS) error {
			return errors.Join(disk.RemoveAll(dir), bringDir(early, disk, dir))
		}, text: "it has offsets 0 to 1, and there were 0 to 2", closed: true},
		"state": {lose: func(disk, _ *vfs.MemFS) error {
			return disk.Remove(filepath.Join(dir, "strata.state"))
		}, text: "it has no strata.state, and there was one"},
		"another topic": {lose: func(disk, _ *vfs.MemFS) error {
			return vfs.WriteFile(disk, filepath.Join(dir, partitionMetadataFile), encodePartitionFile(topic.NewID(), 0))
		}, text: "does not name topic orders"},
		"another number": {lose: func(disk, _ *vfs.MemFS) error {
			require.NoError(t, disk.RemoveAll(dir))
			return disk.Rename(filepath.Join(root, "orders-1"), dir)
		}, text: "it is the directory of partition 1"},
	}
	for how, end := range evidenceEnds {
		for what, tt := range losses {
			t.Run(what+" when "+how, func(t *testing.T) {
				ds := newDisks(1)
				c := openWith(t, ds.config())
				create(t, c, "orders", 2)
				create(t, c, "unwritten", 1)
				produce(t, c, at("orders", 0), "a")
				early := ds[0].Kill()
				produce(t, c, at("orders", 0), "b")
				produce(t, c, at("orders", 1), "c")
				disk := end(t, c, ds)[0].Kill()
				require.NoError(t, tt.lose(disk, early))
				stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) { require.Zero(t, e.Op&vfs.OpChange, e.String()) }})
				err := CheckEvidence(t.Context(), disk, "data")
				require.Equal(t, err == nil, CheckEvidence(t.Context(), disk, root) == nil, "of the broker alone")
				stop()
				if tt.text == "" || tt.closed && how == "killed" {
					require.NoError(t, err)
					return
				}
				var found *DirectoryError
				require.ErrorAs(t, err, &found)
				require.Equal(t, dir, found.Dir)
				require.ErrorIs(t, err, ErrRecordsMissing)
				require.ErrorContains(t, err, tt.text)
				opened := open(t, disk)
				require.Error(t, opened.Status("orders", 0).Err)
			})
		}
	}
}

// A directory that an open of the cluster refuses is found as well.
func TestCheckOfAStoppedClusterFindsForeignAndOldDirectories(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(disk, early *vfs.MemFS) error
		dir    string
		reason error
	}{
		"brokers' directories exchanged": {func(disk, _ *vfs.MemFS) error {
			return errors.Join(disk.Rename("data/broker-2", "data/x"), disk.Rename("data/broker-3", "data/broker-2"), disk.Rename("data/x", "data/broker-3"))
		}, "data/broker-3", ErrForeign},
		"broker's directory empty": {func(disk, _ *vfs.MemFS) error {
			return errors.Join(disk.RemoveAll("data/broker-3"), disk.MkdirAll("data/broker-3", 0o700))
		}, "data/broker-3", ErrDiskReplaced},
		"older copy of a broker's directory": {func(disk, early *vfs.MemFS) error {
			return errors.Join(disk.RemoveAll("data/broker-3"), bringDir(early, disk, "data/broker-3"))
		}, "data/broker-3", ErrDirectoryWentBack},
		"older copies of the metadata": {func(disk, early *vfs.MemFS) error {
			var errs []error
			for _, broker := range []string{"broker-1", "broker-2", "broker-3"} {
				dir := "data/" + broker + "/__cluster_metadata-0"
				errs = append(errs, disk.RemoveAll(dir), bringDir(early, disk, dir))
			}
			return errors.Join(errs...)
		}, "data/broker-1/__cluster_metadata-0", ErrMetadataWentBack},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.Mem()
			c := openBrokers(t, disk, 3)
			create(t, c, "orders", 1, "min.insync.replicas", "1")
			produce(t, c, at("orders", 0), "a")
			require.NoError(t, c.Close())
			early := disk.Kill()
			c = openBrokers(t, disk, 3)
			produce(t, c, at("orders", 0), "b")
			require.NoError(t, c.Close())
			require.NoError(t, CheckEvidence(t.Context(), disk, "data"))
			require.NoError(t, tt.change(disk, early))
			err := CheckEvidence(t.Context(), disk, "data")
			require.ErrorIs(t, err, tt.reason)
			require.ErrorContains(t, err, tt.dir)
		})
	}
}

// bringDir copies a directory from one disk to another.
func bringDir(from, to *vfs.MemFS, dir string) error {
	entries, err := from.ReadDir(dir)
	errs := []error{err, to.MkdirAll(dir, 0o700)}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			errs = append(errs, bringDir(from, to, name))
			continue
		}
		p, err := vfs.ReadFile(from, name)
		errs = append(errs, err, vfs.WriteFile(to, name, p))
	}
	return errors.Join(errs...)
}

// Topics are created, written and deleted while the directory is checked: nothing is reported.
func TestCheckOfADirectoryInUseReportsNothing(t *testing.T) {
	disk := vfs.Mem()
	c := openBrokers(t, disk, 2)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := strings.Repeat("x", i%3+1)
			_ = c.CreateTopic(t.Context(), name, topic.Config{Partitions: 3})
			for p := range int32(3) {
				_ = tryProduce(c, at(name, p), "a").Err
			}
			_ = c.DeleteTopic(t.Context(), name)
		}
	}()
	for range 20 {
		require.NoError(t, CheckEvidence(t.Context(), disk, "data"))
	}
	close(stop)
	<-done
	require.NoError(t, c.Close())
}
