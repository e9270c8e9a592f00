package controller

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewestIsByEpochThenByEndThenByBroker(t *testing.T) {
	copies := []Copy{{1, 3, 90}, {2, 4, 10}, {3, 4, 12}, {4, 4, 12}, {5, -1, 0}}
	require.Equal(t, Copy{3, 4, 12}, Newest(copies))
}

func TestMajorityAndHalf(t *testing.T) {
	require.True(t, Enough([]int32{1, 2, 3}, []int32{3, 1, 9}))
	require.False(t, Enough([]int32{1, 2, 3}, []int32{3, 8, 9}))
	require.False(t, Enough([]int32{1, 2}, []int32{1}))
	require.True(t, Enough([]int32{1}, []int32{1}))
	require.True(t, MayBecome([]int32{2}, []int32{1, 2}))
	require.True(t, MayBecome([]int32{1, 4, 5}, []int32{1, 2, 3, 4}))
	require.False(t, MayBecome([]int32{2}, []int32{1, 2, 3}))
	require.False(t, MayBecome([]int32{2}, []int32{1, 2}, []int32{1, 2, 3}))
	require.False(t, MayBecome([]int32{3, 4}, []int32{1, 2}))
	require.False(t, MayBecome(nil, []int32{1}))
}

// entry is a record of a simulated metadata log: a change, or a change of the set.
type entry struct {
	epoch int32
	id    int     // of the change
	set   []int32 // nil: no change of the set
}

// disk is a simulated copy: entries, and the epochs with where they began.
type disk struct {
	entries []entry
	starts  []start
}

type start struct {
	epoch int32
	at    int
}

func (d *disk) Latest() (int32, bool) {
	if len(d.starts) == 0 {
		return -1, false
	}
	return d.starts[len(d.starts)-1].epoch, true
}

func (d *disk) EndOffsetFor(epoch int32) (int32, int64) {
	n := len(d.starts)
	if n == 0 || epoch > d.starts[n-1].epoch {
		return -1, -1
	}
	i, _ := slices.BinarySearchFunc(d.starts, epoch+1, func(s start, e int32) int { return int(s.epoch - e) })
	switch i {
	case n:
		return d.starts[n-1].epoch, int64(len(d.entries))
	case 0:
		return epoch, int64(d.starts[0].at)
	}
	return d.starts[i-1].epoch, int64(d.starts[i].at)
}

func (d *disk) begin(epoch int32) {
	if latest, ok := d.Latest(); !ok || latest < epoch {
		d.starts = append(d.starts, start{epoch, len(d.entries)})
	}
}

func (d *disk) append(e entry) { d.begin(e.epoch); d.entries = append(d.entries, e) }

func (d *disk) truncate(to int) {
	d.entries = d.entries[:to:to]
	for len(d.starts) > 0 && d.starts[len(d.starts)-1].at >= to {
		d.starts = d.starts[:len(d.starts)-1]
	}
}

// set returns the set that the copy names.
func (d *disk) set() []int32 {
	for _, e := range slices.Backward(d.entries) {
		if e.set != nil {
			return e.set
		}
	}
	return nil
}

// sim is a cluster that opens with some of its disks, changes its metadata while copies fail, dies
// anywhere, and opens again.
type sim struct {
	r                                                    *rand.Rand
	disks                                                map[int32]*disk
	all                                                  []int32
	committed                                            []int   // ids of changes, in order
	force                                                []int32 // the set in force, as the controller knows it
	next                                                 int
	failures                                             int // probability in percent that a write fails
	opened, refused, shrunk, controllers, parted, joined int
}

// open returns the copies that are in sync, nil if the cluster does not open or dies meanwhile.
func (s *sim) open(reachable []int32) (set []int32, epoch int32) {
	var copies []Copy
	for _, id := range reachable {
		latest, _ := s.disks[id].Latest()
		copies = append(copies, Copy{id, latest, int64(len(s.disks[id].entries))})
	}
	newest := Newest(copies)
	leader := s.disks[newest.Broker]
	if known := leader.set(); known == nil && len(reachable) < len(s.all) || known != nil && !Enough(known, reachable) {
		s.refused++
		return nil, 0
	}
	set = slices.DeleteFunc(slices.Clone(reachable), func(id int32) bool {
		return leader.set() != nil && !slices.Contains(leader.set(), id)
	})
	for _, id := range set {
		if !s.follow(id, leader) {
			return nil, 0 // dies
		}
	}
	epoch = newest.Epoch + 1
	for _, id := range set {
		s.disks[id].begin(epoch)
		if s.r.IntN(100) == 0 {
			return nil, 0
		}
	}
	s.opened++
	if s.force = leader.set(); s.force == nil {
		s.force = s.all
	}
	control := newest.Broker
	if !slices.Contains(set, control) {
		control = set[0]
	}
	set, epoch = s.write(set, control, epoch, entry{set: set})
	for _, id := range reachable {
		if set == nil {
			return nil, 0
		}
		if slices.Contains(set, id) {
			continue
		}
		if !s.follow(id, s.disks[set[0]]) {
			return nil, 0
		}
		s.joined++
		all := append(slices.Clone(set), id)
		set, epoch = s.write(all, set[0], epoch, entry{set: all})
	}
	return set, epoch
}

// follow makes a copy equal to the leader's; false: the process dies meanwhile.
func (s *sim) follow(id int32, leader *disk) bool {
	d := s.disks[id]
	if d == leader {
		return true
	}
	to := int(Part(leader, d, int64(len(d.entries))))
	if to < len(d.entries) {
		s.parted++
	}
	d.truncate(to) // also at the end: an epoch without entries is not the leader's
	for _, e := range leader.entries[len(d.entries):] {
		d.append(e)
		if s.r.IntN(200) == 0 {
			return false
		}
	}
	return true
}

// write makes one change on all copies of set; it returns the set and epoch afterwards, nil if the
// cluster is down or cannot go on.
func (s *sim) write(set []int32, leader int32, epoch int32, e entry) ([]int32, int32) {
	named := [][]int32{s.force}
	for {
		e.epoch = epoch
		if e.set != nil {
			named = append(named, e.set)
		}
		var left []int32
		for i, id := range set {
			if e.set != nil && len(left) < i && !slices.Contains(s.force, id) {
				continue // a new copy names a set only when those of the old one do
			}
			switch roll := s.r.IntN(100); {
			case roll < s.failures/2: // failed, nothing is there
			case roll < s.failures: // failed, and it is there
				s.disks[id].append(e)
			default:
				s.disks[id].append(e)
				left = append(left, id)
			}
			if i+1 < len(set) && s.r.IntN(50) == 0 {
				return nil, 0 // dies before the others have it
			}
		}
		if len(left) == len(set) {
			if e.set == nil {
				s.committed = append(s.committed, e.id)
			}
			s.force = left
			return left, epoch
		}
		if !MayBecome(left, named...) {
			return nil, 0 // no change any more before the next open
		}
		s.shrunk++
		pending := e
		if !slices.Contains(left, leader) {
			s.controllers++
			leader, epoch = left[0], epoch+1
			for _, id := range left {
				s.disks[id].begin(epoch)
			}
		}
		if pending.set == nil { // it is committed with the change of the set, which follows
			rest, epoch := s.shrink(left, leader, epoch, named)
			if rest != nil {
				s.committed = append(s.committed, pending.id)
			}
			return rest, epoch
		}
		set, e = left, entry{set: left}
	}
}

func (s *sim) shrink(left []int32, leader, epoch int32, named [][]int32) ([]int32, int32) {
	set := left
	for {
		named = append(named, set)
		var ok []int32
		for _, id := range set {
			if s.r.IntN(100) < s.failures {
				continue
			}
			s.disks[id].append(entry{epoch: epoch, set: set})
			ok = append(ok, id)
			if s.r.IntN(50) == 0 {
				return nil, 0
			}
		}
		if len(ok) == len(set) {
			s.force = set
			return set, epoch
		}
		if !MayBecome(ok, named...) {
			return nil, 0
		}
		if !slices.Contains(ok, leader) {
			leader, epoch = ok[0], epoch+1
			for _, id := range ok {
				s.disks[id].begin(epoch)
			}
		}
		set = ok
	}
}

// check demands that everything that was ever committed is on the copies in
// sync, in order, and that these are equal.
func (s *sim) check(set []int32) error {
	for _, id := range set {
		var ids []int
		for _, e := range s.disks[id].entries {
			if e.set == nil {
				ids = append(ids, e.id)
			}
		}
		at := 0
		for _, want := range s.committed {
			i := slices.Index(ids[at:], want)
			if i < 0 {
				return fmt.Errorf("change %d was committed and is not on broker %d: %v", want, id, ids)
			}
			at += i + 1
		}
		if !slices.EqualFunc(s.disks[id].entries, s.disks[set[0]].entries, func(a, b entry) bool {
			return a.epoch == b.epoch && a.id == b.id && slices.Equal(a.set, b.set)
		}) {
			return fmt.Errorf("copies of %d and %d differ", id, set[0])
		}
	}
	return nil
}

func simulate(seed uint64) (*sim, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &sim{r: r, disks: map[int32]*disk{}, failures: r.IntN(12)}
	for id := range int32(1 + r.IntN(5)) {
		s.all = append(s.all, id+1)
		s.disks[id+1] = &disk{}
	}
	for life := range 30 {
		reachable := slices.DeleteFunc(slices.Clone(s.all), func(int32) bool { return life > 0 && r.IntN(3) == 0 })
		if len(reachable) == 0 {
			continue
		}
		set, epoch := s.open(reachable)
		for range r.IntN(8) {
			if set == nil {
				break
			}
			if err := s.check(set); err != nil {
				return s, fmt.Errorf("seed %d, life %d: %w", seed, life, err)
			}
			s.next++
			set, epoch = s.write(set, set[0], epoch, entry{id: s.next})
		}
	}
	return s, nil
}

func TestNothingCommittedIsEverLost(t *testing.T) {
	seeds := 500
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 10_000
	}
	var all sim
	for seed := range uint64(seeds) {
		s, err := simulate(seed)
		require.NoError(t, err)
		all.opened += s.opened
		all.refused += s.refused
		all.shrunk += s.shrunk
		all.controllers += s.controllers
		all.parted += s.parted
		all.joined += s.joined
		all.next += len(s.committed)
	}
	t.Logf("%d opened, %d refused, %d sets shrunk, %d controllers replaced, %d copies cut, %d joined, %d changes committed",
		all.opened, all.refused, all.shrunk, all.controllers, all.parted, all.joined, all.next)
	for _, n := range []int{all.opened, all.refused, all.shrunk, all.controllers, all.parted, all.joined, all.next} {
		require.Positive(t, n)
	}
}
