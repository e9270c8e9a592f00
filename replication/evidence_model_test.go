package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The model of docs/format/evidence.md: each file and each directory of a broker is damaged,
// removed or replaced by an old copy. This happens while the cluster is closed, after a kill, or
// after a power cut. Then each partition serves all acknowledged records, or its calls fail. The
// records of other replicas stay.

// perLife is the number of records acknowledged in a partition in each of the cluster's two lives.
const perLife = 12

const modelPartitions = 2

// A ruin is damage to one file or directory of a broker.
type ruin struct {
	kind string
	do   func(fsys, old *vfs.MemFS, name string) error
}

var errNotApplicable = errors.New("nothing to be done")

// ruins are ruins of files.
var ruins = []ruin{
	{"removed", func(fsys, _ *vfs.MemFS, name string) error { return fsys.RemoveAll(name) }},
	{"emptied", func(fsys, _ *vfs.MemFS, name string) error {
		return rewrite(fsys, name, func(p []byte) []byte { return nil })
	}},
	{"zeroed", func(fsys, _ *vfs.MemFS, name string) error {
		return rewrite(fsys, name, func(p []byte) []byte { return make([]byte, len(p)) })
	}},
	{"cut in half", func(fsys, _ *vfs.MemFS, name string) error {
		return rewrite(fsys, name, func(p []byte) []byte { return p[:len(p)/2] })
	}},
	{"one bit flipped", func(fsys, _ *vfs.MemFS, name string) error {
		return rewrite(fsys, name, func(p []byte) []byte {
			p[len(p)*2/3] ^= 4
			return p
		})
	}},
	{"an old copy", func(fsys, old *vfs.MemFS, name string) error {
		p, err := vfs.ReadFile(old, name)
		if errors.Is(err, fs.ErrNotExist) {
			return errNotApplicable
		}
		if err != nil {
			return err
		}
		return vfs.WriteFile(fsys, name, p)
	}},
}

// ruinsOfPlaces put something else in the place of a file.
var ruinsOfPlaces = []ruin{
	{"a directory in its place", func(fsys, _ *vfs.MemFS, name string) error {
		return errors.Join(fsys.RemoveAll(name), fsys.MkdirAll(name, 0o755))
	}},
}

// ruinsOfDirectories are ruins of directories.
var ruinsOfDirectories = []ruin{
	{"removed", func(fsys, _ *vfs.MemFS, name string) error { return fsys.RemoveAll(name) }},
	{"emptied", func(fsys, _ *vfs.MemFS, name string) error {
		return removeIn(fsys, name, func(string) bool { return true })
	}},
	{"without logs and state", func(fsys, _ *vfs.MemFS, name string) error {
		return removeIn(fsys, name, func(file string) bool { return strings.HasSuffix(file, ".log") || file == "strata.state" })
	}},
	{"without its state", func(fsys, _ *vfs.MemFS, name string) error { return fsys.Remove(filepath.Join(name, "strata.state")) }},
	{"without its state and a middle segment", func(fsys, _ *vfs.MemFS, name string) error {
		var logs []string
		entries, err := fsys.ReadDir(name)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".log") {
				logs = append(logs, e.Name())
			}
		}
		if err != nil || len(logs) < 3 {
			return errors.Join(err, errNotApplicable)
		}
		return errors.Join(fsys.Remove(filepath.Join(name, "strata.state")), fsys.Remove(filepath.Join(name, logs[1])))
	}},
	{"but for its last segment", func(fsys, _ *vfs.MemFS, name string) error {
		last := ""
		entries, err := fsys.ReadDir(name)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".log") {
				last = e.Name()
			}
		}
		return errors.Join(err, removeIn(fsys, name, func(file string) bool { return file != last && file != partitionMetadataFile }))
	}},
	{"an old copy", func(fsys, old *vfs.MemFS, name string) error {
		if err := removeIn(fsys, name, func(string) bool { return true }); err != nil {
			return err
		}
		return copyFiles(old, fsys, name)
	}},
	{"an old copy over the newer one", func(fsys, old *vfs.MemFS, name string) error { return copyFiles(old, fsys, name) }},
}

// copyFiles copies the files of a directory, and leaves other files there.
func copyFiles(from, to *vfs.MemFS, dir string) error {
	entries, err := from.ReadDir(dir)
	for _, e := range entries {
		p, failed := vfs.ReadFile(from, filepath.Join(dir, e.Name()))
		if failed == nil {
			failed = vfs.WriteFile(to, filepath.Join(dir, e.Name()), p)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// ruinsOfBrokers are ruins of a broker's whole directory.
var ruinsOfBrokers = []ruin{
	{"two partitions that changed places", func(fsys, _ *vfs.MemFS, name string) error {
		one, two, aside := filepath.Join(name, "orders-0"), filepath.Join(name, "orders-1"), filepath.Join(name, "aside")
		return errors.Join(fsys.Rename(one, aside), fsys.Rename(two, one), fsys.Rename(aside, two))
	}},
	{"without a marker and a partition", func(fsys, _ *vfs.MemFS, name string) error {
		if err := fsys.Remove(filepath.Join(name, ".kafka_cleanshutdown")); err != nil {
			return err // it was not closed
		}
		return fsys.RemoveAll(filepath.Join(name, "orders-0"))
	}},
	{"without the other marker and an old copy of a partition", func(fsys, old *vfs.MemFS, name string) error {
		if err := fsys.Remove(filepath.Join(name, "strata.closed")); err != nil {
			return err
		}
		return putTree(old, fsys, filepath.Join(name, "orders-0"), filepath.Join(name, "orders-0"))
	}},
	{"with an empty marker and an old copy of a partition", func(fsys, old *vfs.MemFS, name string) error {
		if _, err := fsys.Stat(filepath.Join(name, ".kafka_cleanshutdown")); err != nil {
			return err
		}
		return errors.Join(vfs.WriteFile(fsys, filepath.Join(name, ".kafka_cleanshutdown"), nil), putTree(old, fsys, filepath.Join(name, "orders-1"), filepath.Join(name, "orders-1")))
	}},
	{"the metadata's log in the place of a partition", func(fsys, _ *vfs.MemFS, name string) error {
		return putTree(fsys, fsys, filepath.Join(name, "__cluster_metadata-0"), filepath.Join(name, "orders-0"))
	}},
	{"another partition in its place, without its name", func(fsys, _ *vfs.MemFS, name string) error {
		err := putTree(fsys, fsys, filepath.Join(name, "orders-0"), filepath.Join(name, "orders-1"))
		return errors.Join(err, fsys.Remove(filepath.Join(name, "orders-1", partitionMetadataFile)))
	}},
	{"an old copy", func(fsys, old *vfs.MemFS, name string) error { return putTree(old, fsys, name, name) }},
}

// putTree puts a copy of a directory of from, with its subdirectories, in a place of to.
func putTree(from, to *vfs.MemFS, root, place string) error {
	entries, err := from.ReadDir(root)
	if err = errors.Join(err, to.RemoveAll(place), to.MkdirAll(place, 0o755)); err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(root, e.Name())
		if e.IsDir() {
			err = errors.Join(err, putTree(from, to, name, filepath.Join(place, e.Name())))
			continue
		}
		p, failed := vfs.ReadFile(from, name)
		if failed == nil {
			failed = vfs.WriteFile(to, filepath.Join(place, e.Name()), p)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func rewrite(fsys *vfs.MemFS, name string, edit func([]byte) []byte) error {
	p, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if len(p) == 0 {
		return errNotApplicable
	}
	return vfs.WriteFile(fsys, name, edit(slices.Clone(p)))
}

func removeIn(fsys *vfs.MemFS, dir string, which func(file string) bool) error {
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if which(e.Name()) {
			err = errors.Join(err, fsys.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// evidenceWorld returns the disks of a cluster after two lives. old has the disks after the first
// one. The acts run in the second life, after the ends on stable storage are noted.
func evidenceWorld(t *testing.T, brokers int, end string, seed uint64, acts ...func(*testing.T, *Cluster)) (now, old disks) {
	t.Helper()
	ds := newDisks(brokers)
	life := func(first int) *Cluster {
		c, err := Open(ds.config())
		require.NoError(t, err)
		if first == 0 {
			require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
				Partitions: modelPartitions, ReplicationFactor: brokers,
				Properties: properties("min.insync.replicas", fmt.Sprint((brokers+1)/2), "internal.segment.bytes", "500"),
			}))
			awaitFounding(c)
		}
		for p := range int32(modelPartitions) {
			inSync(t, c, at("orders", p), brokers)
			for i := range perLife {
				require.NoError(t, all(c, at("orders", p), fmt.Sprintf("%d of %d", first+i, p)).Err)
			}
		}
		return c
	}
	c := life(0)
	require.NoError(t, c.Close())
	old = ds.kill()
	c = life(perLife)
	time.Sleep(2 * defaultHighWatermarkInterval) // the ends on stable storage are noted
	for _, act := range acts {
		act(t, c)
	}
	for i, d := range ds {
		switch end {
		case "killed":
			now = append(now, d.Kill())
		case "cut off":
			now = append(now, d.Crash(seed+uint64(i)))
		}
	}
	require.NoError(t, c.Close())
	if now == nil {
		now = ds
	}
	return now, old
}

// restart kills a broker and starts it again, unless it is the only one.
func restart(id int32) func(*testing.T, *Cluster) {
	return func(t *testing.T, c *Cluster) {
		if len(c.Brokers()) > 1 {
			require.NoError(t, c.KillBroker(id))
			require.NoError(t, c.StartBroker(t.Context(), id))
		}
	}
}

// lead makes a broker the leader of a partition, if it is not.
func lead(p, id int32) func(*testing.T, *Cluster) {
	return func(t *testing.T, c *Cluster) {
		inSync(t, c, at("orders", p), len(c.Brokers()))
		if c.Leader("orders", p) != id {
			require.NoError(t, c.TransferLeader(t.Context(), at("orders", p), id))
		}
	}
}

func pause(d time.Duration) func(*testing.T, *Cluster) {
	return func(*testing.T, *Cluster) { time.Sleep(d) }
}

// TestRuinsAfterRandomHistoriesLoseNothingInSilence is the model with random restarts and changes
// of leaders before the end, by seed.
func TestRuinsAfterRandomHistoriesLoseNothingInSilence(t *testing.T) {
	seeds := 240
	if text := os.Getenv("STRATA_RUIN_SEEDS"); text != "" {
		var err error
		seeds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	look := sample.OneIn(t, 60)
	counts := map[string]int{}
	for seed := range seeds {
		if !look(seed) {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 27))
				brokers := []int{1, 3}[rng.IntN(2)]
				end := []string{"closed", "killed", "cut off"}[rng.IntN(3)]
				var acts []func(*testing.T, *Cluster)
				for range rng.IntN(5) {
					switch broker := 1 + rng.Int32N(int32(brokers)); rng.IntN(3) {
					case 0:
						acts = append(acts, restart(broker))
					case 1:
						acts = append(acts, lead(rng.Int32N(modelPartitions), broker))
					case 2:
						acts = append(acts, pause(time.Duration(rng.Int64N(2*int64(defaultHighWatermarkInterval)))))
					}
				}
				for p := range int32(modelPartitions) { // else a ruin may take the only replica
					acts = append(acts, func(t *testing.T, c *Cluster) { inSync(t, c, at("orders", p), brokers) })
				}
				now, old := evidenceWorld(t, brokers, end, uint64(seed), acts...)
				for range 4 {
					ds := now.kill()
					broker := rng.IntN(brokers)
					root := fmt.Sprintf("data/broker-%d", broker+1)
					names := append(treeOf(t, root, now[broker], old[broker]), root, root, root, root)
					name := names[rng.IntN(len(names))]
					list := ruinsOf(now[broker], name, brokers)
					r := list[rng.IntN(len(list))]
					err := r.do(ds[broker], old[broker], name)
					if errors.Is(err, errNotApplicable) || errors.Is(err, fs.ErrNotExist) {
						continue
					}
					require.NoError(t, err)
					t.Logf("%d brokers, %s: %s %s", brokers, end, name, r.kind)
					counts[requireNothingLostInSilence(t, ds, brokers)]++
				}
			})
		})
	}
	t.Logf("%v", counts)
}

// ruinsOf returns the ruins that apply to a file or directory of a broker.
func ruinsOf(fsys *vfs.MemFS, name string, brokers int) []ruin {
	switch info, err := fsys.Stat(name); {
	case strings.HasPrefix(filepath.Base(name), dirPrefix) && brokers == 1: // an old copy is valid
		return ruinsOfBrokers[:len(ruinsOfBrokers)-1]
	case strings.HasPrefix(filepath.Base(name), dirPrefix):
		return ruinsOfBrokers
	case err == nil && info.IsDir():
		return ruinsOfDirectories
	}
	return slices.Concat(ruins, ruinsOfPlaces)
}

// TestRuinedFilesLoseNothingInSilence is the model.
func TestRuinedFilesLoseNothingInSilence(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		for _, end := range []string{"closed", "killed", "cut off"} {
			t.Run(fmt.Sprintf("%d brokers, %s", brokers, end), func(t *testing.T) { ruinAll(t, brokers, end) })
		}
	}
}

func ruinAll(t *testing.T, brokers int, end string) {
	var now, old disks
	synctest.Test(t, func(t *testing.T) { now, old = evidenceWorld(t, brokers, end, 0) })
	look := sample.OneIn(t, map[int]int{1: 18, 3: 54}[brokers])
	counts, cases := map[string]int{}, 0
	for broker := 1; broker <= min(brokers, 2); broker++ { // the leader, and a follower
		root := fmt.Sprintf("data/broker-%d", broker)
		for _, name := range append(treeOf(t, root, now[broker-1], old[broker-1]), root) {
			for _, r := range ruinsOf(now[broker-1], name, brokers) {
				if cases++; !look(cases - 1) {
					continue
				}
				t.Run(strings.ReplaceAll(name, "/", ":")+" "+r.kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ds := now.kill()
						err := r.do(ds[broker-1], old[broker-1], name)
						if errors.Is(err, errNotApplicable) || errors.Is(err, fs.ErrNotExist) {
							return
						}
						require.NoError(t, err)
						counts[requireNothingLostInSilence(t, ds, brokers)]++
					})
				})
			}
		}
	}
	t.Logf("%v", counts)
}

// TestDirectoriesThatWereAwayLoseNothing is the model with directories of the partition that are
// away from some or all brokers during runs. They are then put back unchanged.
func TestDirectoriesThatWereAwayLoseNothing(t *testing.T) {
	for brokers, subsets := range map[int][][]int{1: {{1}}, 3: {{1}, {2}, {1, 2}, {2, 3}, {1, 2, 3}}} {
		for _, end := range []string{"closed", "killed", "cut off"} {
			var now disks
			synctest.Test(t, func(t *testing.T) { now, _ = evidenceWorld(t, brokers, end, 0) })
			for _, away := range subsets {
				for _, runs := range []int{1, 2} {
					for returning := 1; returning <= len(away); returning++ {
						name := fmt.Sprintf("%d brokers, %s, %v away for %d runs, %d put back", brokers, end, away, runs, returning)
						t.Run(name, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { takeAwayAndPutBack(t, now.kill(), away, runs, returning) })
						})
					}
				}
			}
		}
	}
}

func takeAwayAndPutBack(t *testing.T, ds disks, away []int, runs, returning int) {
	var back []func()
	for _, broker := range away {
		back = append(back, takeAway(t, ds[broker-1], dirOf(broker)))
	}
	for range runs {
		what := requireNothingLostInSilence(t, ds, len(ds))
		require.Equal(t, len(away) == len(ds), isAway(what), what)
	}
	for _, put := range back[:returning] {
		put()
	}
	what := requireNothingLostInSilence(t, ds, len(ds))
	require.False(t, isAway(what), what)
}

// isAway reports whether a partition is not served.
func isAway(what string) bool {
	return !strings.Contains(what, "served") || strings.Contains(what, "offline") || strings.Contains(what, "without a leader")
}

// treeOf returns the files and directories of a broker, except its lock.
func treeOf(t *testing.T, root string, now, old *vfs.MemFS) (names []string) {
	for _, fsys := range []*vfs.MemFS{now, old} {
		entries, err := fsys.ReadDir(root)
		require.NoError(t, err)
		for _, e := range entries {
			name := filepath.Join(root, e.Name())
			names = append(names, name)
			if e.IsDir() {
				files, err := fsys.ReadDir(name)
				require.NoError(t, err)
				for _, f := range files {
					names = append(names, filepath.Join(name, f.Name()))
				}
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return filepath.Base(name) == ".lock" })
}

// requireNothingLostInSilence opens the cluster and reads its records. It returns the outcomes.
func requireNothingLostInSilence(t *testing.T, ds disks, brokers int) (what string) {
	t.Helper()
	c, err := Open(ds.config())
	if err != nil {
		require.True(t, errors.As(err, new(*DirectoryError)), "%v", err)
		return "refused"
	}
	defer func() { require.NoError(t, c.Close()) }()
	var each []string
	for p := range int32(modelPartitions) {
		if brokers == 1 {
			each = append(each, requireServedOrOffline(t, c, p))
		} else {
			each = append(each, requireServedByOthers(t, c, p, brokers))
		}
	}
	slices.Sort(each)
	return strings.Join(slices.Compact(each), ", ")
}

// tryAll reads a partition, and checks that nothing is missing unless there is an error.
func tryAll(t *testing.T, c *Cluster, p int32) (n int, err error) {
	t.Helper()
	got, err := tryValues(t.Context(), c, at("orders", p))
	if err != nil {
		return 0, err
	}
	if len(got) < 2*perLife {
		require.Failf(t, "records are missing", "%d of %d in partition %d, and no error", len(got), 2*perLife, p)
	}
	for i, v := range got[:2*perLife] { // the rest was appended by an earlier call
		require.Equal(t, fmt.Sprintf("%d of %d", i, p), v)
	}
	return len(got), nil
}

func requireServedOrOffline(t *testing.T, c *Cluster, p int32) string {
	t.Helper()
	n, err := tryAll(t, c, p)
	r := tryProduce(c, at("orders", p), "next")
	switch {
	case err != nil && c.Status("orders", p).Err != nil:
		require.Error(t, r.Err)
		requireTyped(t, c.Status("orders", p).Err)
		return "offline"
	case err != nil: // a read found a damaged batch
		if r.Err == nil {
			require.GreaterOrEqual(t, r.BaseOffset, int64(2*perLife))
		}
		return "unreadable"
	}
	require.NoError(t, r.Err)
	require.EqualValues(t, n, r.BaseOffset)
	return "served"
}

func requireServedByOthers(t *testing.T, c *Cluster, p int32, brokers int) string {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		version := c.MetadataVersion()
		if c.Status("orders", p).Leader >= 0 {
			break
		}
		if _, err := c.WaitMetadata(ctx, version); err != nil {
			return "without a leader"
		}
	}
	_, err := tryAll(t, c, p)
	time.Sleep(time.Minute)
	n, later := tryAll(t, c, p)
	if err != nil || later != nil { // for example, a read found a damaged batch
		requireWholeOnTwo(t, c, p)
		return "unreadable"
	}
	r := tryAcks(c, at("orders", p), record.AcksAll, "next")
	require.NoError(t, r.Err)
	require.EqualValues(t, n, r.BaseOffset)
	requireWholeOnTwo(t, c, p)
	if s := c.Status("orders", p); len(s.ISR) == brokers {
		return "served by all"
	}
	return "served by others"
}

// requireTyped checks that an error has a type that names a path.
func requireTyped(t *testing.T, err error) {
	t.Helper()
	typed := errors.As(err, new(*DirectoryError)) || errors.As(err, new(*log.CorruptError)) || errors.As(err, new(*log.IncompleteError)) ||
		errors.Is(err, log.ErrMissingSegment)
	require.True(t, typed && strings.Contains(err.Error(), "data/"), "%v", err)
}

// requireWholeOnTwo checks that at least two replicas have the records of both lives.
func requireWholeOnTwo(t *testing.T, c *Cluster, p int32) {
	t.Helper()
	whole := 0
	s := c.Status("orders", p)
	for _, end := range s.Ends {
		if end >= 2*perLife {
			whole++
		}
	}
	require.GreaterOrEqual(t, whole, 2, "%+v", s)
}
