package replication

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A smallDisk is a disk of 64 MiB, most of which other files occupy.
type smallDisk struct{ *vfs.MemFS }

func newSmallDisk(t *testing.T) smallDisk {
	m := vfs.Mem()
	m.SetCapacity(64 << 20)
	d := smallDisk{m}
	d.occupy(t, "others", 60<<20)
	return d
}

// occupy takes space in a file.
func (d smallDisk) occupy(t *testing.T, name string, bytes int64) {
	t.Helper()
	if bytes == 0 {
		return
	}
	f, err := d.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Allocate(0, bytes))
	require.NoError(t, f.Close())
}

func (d smallDisk) free(t *testing.T) int64 {
	t.Helper()
	_, free, err := d.Space("/")
	require.NoError(t, err)
	return free
}

// fill appends to a partition until an append fails, takes the rest of the disk, and returns the
// number of records.
func (d smallDisk) fill(t *testing.T, c *Cluster, tp record.TopicPartition) (n int64) {
	t.Helper()
	for value := strings.Repeat("v", 50_000); ; n++ {
		if res := tryProduce(c, tp, value); res.Err != nil {
			require.ErrorIs(t, res.Err, syscall.ENOSPC)
			break
		}
	}
	d.occupy(t, fmt.Sprint("rest-", n), d.free(t))
	return n
}

// Operations that free space need none. A disk that is full to the last block heals without a
// restart.
func TestFullDiskHeals(t *testing.T) {
	for name, tc := range map[string]struct {
		props []string
		free  func(t *testing.T, c *Cluster, n int64) error
	}{
		"delete records": {nil, func(t *testing.T, c *Cluster, n int64) error {
			_, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{at("a", 0): n / 2})
			return err
		}},
		"delete the topic": {nil, func(t *testing.T, c *Cluster, _ int64) error { return c.DeleteTopic(t.Context(), "a") }},
		"retention.bytes":  {[]string{"retention.bytes", "1000000"}, nil},
		"retention.ms":     {[]string{"retention.ms", "1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newSmallDisk(t)
				c := open(t, d.MemFS)
				create(t, c, "a", 1, append(tc.props, "segment.bytes", "1048576", "file.delete.delay.ms", "0")...)
				create(t, c, "b", 1)
				produce(t, c, at("b", 0), "v")
				n := d.fill(t, c, at("a", 0))
				require.Zero(t, d.free(t))
				if tc.free != nil {
					require.NoError(t, tc.free(t, c, n))
				}
				time.Sleep(2 * time.Minute) // records age, and the files of a deleted topic wait
				if name != "delete the topic" {
					_, err := c.Clean(t.Context(), "a")
					require.NoError(t, err)
					produce(t, c, at("a", 0), "v")
				}
				produce(t, c, at("b", 0), "v")
				create(t, c, "new", 1)
				produce(t, c, at("new", 0), "v")
			})
		})
	}
}

// A broker starts on a full disk and serves its records. Appends fail with ENOSPC until there is
// space.
func TestBrokerStartsOnAFullDisk(t *testing.T) {
	for _, how := range []string{"closed", "killed"} {
		t.Run(how, func(t *testing.T) {
			d := newSmallDisk(t)
			d.occupy(t, "reserved", 1<<20)
			c, err := Open(Config{FS: d.MemFS, Dir: "data"})
			require.NoError(t, err)
			create(t, c, "a", 1, "segment.bytes", "1048576")
			create(t, c, "b", 3)
			for p := range int32(3) {
				produce(t, c, at("b", p), "v")
			}
			n := d.fill(t, c, at("a", 0))
			if how == "killed" {
				killed := d.Kill()
				killed.SetCapacity(64 << 20)
				require.NoError(t, c.Close())
				d = smallDisk{killed}
			} else {
				require.NoError(t, c.Close())
			}
			for range 3 {
				d.occupy(t, fmt.Sprint("more-", d.Count(vfs.OpAny)), d.free(t)/4096*4096)
				c, err = Open(Config{FS: d.MemFS, Dir: "data"})
				require.NoError(t, err)
				require.Len(t, values(t, c, at("a", 0)), int(n))
				require.Equal(t, []string{"v"}, values(t, c, at("b", 2)))
				require.ErrorIs(t, tryProduce(c, at("b", 0), strings.Repeat("v", 50_000)).Err, syscall.ENOSPC)
				require.NoError(t, c.Close())
			}
			require.NoError(t, d.Remove("reserved"))
			c = open(t, d.MemFS)
			produce(t, c, at("a", 0), "v")
			produce(t, c, at("b", 0), "v")
		})
	}
}

// An error of the disk is not reported as a missing directory, and the error does not suggest
// AcceptMetadataLoss.
func TestStartThatTheDiskRefusesNamesItsError(t *testing.T) {
	for _, cause := range []error{syscall.EACCES, syscall.ENOSPC, syscall.EIO} {
		m := vfs.Mem()
		c := openWith(t, Config{FS: m, Dir: "data"})
		create(t, c, "a", 1)
		killed := m.Kill()
		remove := killed.Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpCreate, Pattern: "strata.state*", Times: vfs.Always, Err: cause})
		before := fileNames(t, killed, "data/broker-1")
		_, err := Open(Config{FS: killed, Dir: "data"})
		require.ErrorIs(t, err, cause)
		require.NotErrorIs(t, err, ErrMissing)
		require.NotContains(t, err.Error(), "AcceptMetadataLoss")
		require.Equal(t, before, fileNames(t, killed, "data/broker-1"), "a start that is refused changes nothing")
		remove()
		openWith(t, Config{FS: killed, Dir: "data"})
	}
}

func fileNames(t *testing.T, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
