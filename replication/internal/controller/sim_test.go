package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// entry is a record of a simulated metadata log: a change, or a change of the set.
type entry struct {
	epoch int32
	id    int     // of the change
	set   []int32 // nil: no change of the set
}

// disk is a simulated copy: its entries, and the epochs with their first positions.
type disk struct {
	entries []entry
	starts  []start
	kept    int32 // an epoch promised by the copy, which its entries may not show
}

type start struct {
	epoch int32
	at    int
}

// latest returns the newest epoch that began on the copy and was not cut, or -1 if there is none.
func (d *disk) latest() int32 {
	if len(d.starts) == 0 {
		return -1
	}
	return d.starts[len(d.starts)-1].epoch
}

// promised returns the newest epoch that ever began on the copy.
func (d *disk) promised() int32 { return max(d.kept, d.latest()) }

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

// begin makes an epoch the newest, at the end. It replaces an epoch without entries.
func (d *disk) begin(epoch int32) {
	if d.latest() >= epoch {
		return
	}
	for len(d.starts) > 0 && d.starts[len(d.starts)-1].at >= len(d.entries) {
		d.starts = d.starts[:len(d.starts)-1]
	}
	d.starts = append(d.starts, start{epoch, len(d.entries)})
}

func (d *disk) append(e entry) { d.begin(e.epoch); d.entries = append(d.entries, e) }

// cut truncates the copy. It keeps a promise that the entries no longer show.
func (d *disk) cut(to int) {
	was := d.latest()
	d.entries = d.entries[:to:to]
	for len(d.starts) > 0 && d.starts[len(d.starts)-1].at >= to {
		d.starts = d.starts[:len(d.starts)-1]
	}
	if d.latest() < was {
		d.kept = max(d.kept, was)
	}
}

// last returns the epoch of the last entry, or -1 if there is none.
func (d *disk) last() int32 {
	if len(d.entries) == 0 {
		return -1
	}
	return d.entries[len(d.entries)-1].epoch
}

// sets returns the sets that may be in force, according to the copy.
func (d *disk) sets() (sets Sets) {
	for _, e := range d.entries {
		if e.set != nil {
			sets = sets.Named(e.set)
		} else {
			sets = sets.Committed()
		}
	}
	return sets
}

// sim is a cluster that opens with some of its disks and changes its metadata while copies fail.
// It dies anywhere, and opens again.
type sim struct {
	r        *rand.Rand
	disks    map[int32]*disk
	all      []int32
	failures int // probability in percent that a write fails
	deaths   int // in thousandths, that the process dies at a step
	missing  int // one in this many disks is missing, in each life

	committed []int        // ids of changes, in order
	refusals  map[int]bool // ids of changes that were taken back from every copy
	next      int

	// State of the process.
	inPlace bool // copies are opened again and changes taken back while the process lives
	dead    bool
	applied []entry // entries that the process has shown: all that were committed in its life

	// State of the controller.
	named  Sets    // sets that may be in force
	inSync []int32 // copies that are written
	lost   error   // violation found when copies are opened again
	sealed bool    // an ordinary change follows the last set in the copies

	opened, refused, shrunk, controllers, parted, joined int
	leftOut, left, stuck, returned, sure                 int
	takenBack, reopened, again                           int
}

// open returns the copies that are in sync, or nil if the cluster does not open or the process
// dies.
func (s *sim) open(reachable []int32) (set []int32, epoch int32) {
	var copies []Copy
	for _, id := range reachable {
		epoch = max(epoch, s.disks[id].promised()+1)
		copies = append(copies, Copy{id, s.disks[id].last(), int64(len(s.disks[id].entries))})
	}
	newest := Newest(copies)
	leader := s.disks[newest.Broker]
	if len(s.applied) > 0 {
		s.reopened++
	}
	was := leader.sets()
	named := was.Known(newest, copies)
	if len(named) < len(was) {
		s.sure++
	}
	if named == nil && len(reachable) < len(s.all) || named != nil && !Enough(reachable, named...) {
		s.refused++
		return nil, 0
	}
	if named == nil {
		named = Sets{s.all}
	}
	set = slices.DeleteFunc(slices.Clone(reachable), func(id int32) bool { return !slices.Contains(named.All(), id) })
	for _, id := range set {
		if !s.follow(id, leader) {
			return nil, 0 // the process dies
		}
		if s.r.IntN(100) < s.failures/2 {
			return s.openWithout(id, reachable)
		}
	}
	for _, id := range set {
		s.disks[id].begin(epoch)
		if s.dies() {
			return nil, 0
		}
		if s.r.IntN(100) < s.failures/2 {
			return s.openWithout(id, reachable)
		}
	}
	if !startsWith(leader.entries, s.applied) {
		s.lost = fmt.Errorf("the newest copy, of broker %d, lacks something that was shown", newest.Broker)
		return nil, 0
	}
	s.opened++
	s.inSync, s.named, s.sealed = set, named, len(was) <= 1
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
	return s.seal(set, epoch)
}

// seal writes a change after a change of the set, so that copies show the set as committed.
func (s *sim) seal(set []int32, epoch int32) ([]int32, int32) {
	if set == nil || s.sealed {
		return set, epoch
	}
	s.next++
	return s.write(set, set[0], epoch, entry{id: s.next})
}

// order returns a set in the order in which copies get a change. The order is random, with joining
// copies last.
func (s *sim) order(set []int32) []int32 {
	set = slices.Clone(set)
	s.r.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
	slices.SortStableFunc(set, func(a, b int32) int {
		return cmp.Compare(s.rank(a), s.rank(b))
	})
	return set
}

func (s *sim) rank(id int32) int {
	if slices.Contains(s.inSync, id) {
		return 0
	}
	return 1
}

// dies reports whether the process dies.
func (s *sim) dies() bool {
	s.dead = s.dead || s.r.IntN(1000) < s.deaths
	return s.dead
}

// shown notes that the process shows all entries on a copy of the set, which are thus committed.
func (s *sim) shown(set []int32) { s.applied = slices.Clone(s.disks[set[0]].entries) }

func startsWith(entries, with []entry) bool {
	return len(entries) >= len(with) && slices.EqualFunc(entries[:len(with)], with, sameEntry)
}

func sameEntry(a, b entry) bool {
	return a.epoch == b.epoch && a.id == b.id && slices.Equal(a.set, b.set)
}

// reopen has a controller take over in place, when the outcome of a change is unknown. The process
// lives. Some of its disks may be unreadable now, and a disk that it did not have may be readable.
func (s *sim) reopen(serving []int32) ([]int32, int32) {
	reachable := slices.DeleteFunc(slices.Clone(serving), func(int32) bool { return s.r.IntN(100) < s.failures })
	if id := s.all[s.r.IntN(len(s.all))]; s.r.IntN(3) == 0 && !slices.Contains(reachable, id) {
		reachable = append(reachable, id)
	}
	if len(reachable) == 0 {
		return nil, 0
	}
	set, epoch := s.open(reachable)
	if set != nil {
		s.again++
	}
	return set, epoch
}

// openWithout opens again without a copy that failed, in whatever state the copy is.
func (s *sim) openWithout(id int32, reachable []int32) (set []int32, epoch int32) {
	s.leftOut++
	if reachable = without(reachable, id); len(reachable) == 0 {
		return nil, 0
	}
	return s.open(reachable)
}

func without(set []int32, id int32) []int32 {
	return slices.DeleteFunc(slices.Clone(set), func(other int32) bool { return other == id })
}

// leave removes a broker that is stopped or killed.
func (s *sim) leave(set []int32, epoch int32) ([]int32, int32) {
	id := set[s.r.IntN(len(set))]
	left := without(set, id)
	if len(left) == 0 {
		return set, epoch
	}
	s.left++
	if id == set[0] {
		if epoch++; !s.begin(left, epoch) {
			return nil, 0
		}
	}
	return s.seal(s.shrink(left, left[0], epoch, slices.Clone(s.named)))
}

// begin begins an epoch on all copies of a set. It returns false if the process dies meanwhile.
func (s *sim) begin(set []int32, epoch int32) bool {
	for _, id := range set {
		if s.dies() {
			return false
		}
		s.disks[id].begin(epoch)
	}
	return true
}

// takeBack writes a change that is not committed and takes it back. Copies where this fails leave
// the set, and the others continue in a new epoch.
func (s *sim) takeBack(set []int32, epoch int32) ([]int32, int32) {
	s.next++
	var left []int32
	for _, id := range set {
		d := s.disks[id]
		d.append(entry{epoch: epoch, id: s.next})
		if s.r.IntN(100) >= s.failures {
			d.cut(len(d.entries) - 1)
			if s.dies() {
				return nil, 0
			}
			d.begin(epoch) // if the epoch has no other entry
			left = append(left, id)
		}
	}
	if len(left) == len(set) {
		s.refusals[s.next] = true
		return set, epoch
	}
	if !MayBecome(left, s.named...) {
		return nil, 0
	}
	s.stuck++
	if epoch++; !s.begin(left, epoch) {
		return nil, 0
	}
	return s.seal(s.shrink(left, left[0], epoch, slices.Clone(s.named)))
}

// takeBackFrom removes a change from the copies that have it. They begin the epoch again if it has
// no other entry. It returns false if a copy fails or the process dies.
func (s *sim) takeBackFrom(set []int32, e entry) bool {
	for _, id := range set {
		d := s.disks[id]
		last := len(d.entries) - 1
		if last < 0 || !sameEntry(d.entries[last], e) {
			continue
		}
		if s.r.IntN(100) < 5*s.failures {
			return false
		}
		d.cut(last)
		if s.dies() {
			return false
		}
		d.begin(e.epoch)
	}
	s.takenBack++
	s.refusals[e.id] = true
	return true
}

// comeBack adds a broker that is not in the set.
func (s *sim) comeBack(set []int32, epoch int32) ([]int32, int32) {
	for _, id := range s.all {
		if slices.Contains(set, id) {
			continue
		}
		if !s.follow(id, s.disks[set[0]]) {
			return nil, 0
		}
		s.returned++
		all := append(slices.Clone(set), id)
		return s.seal(s.write(all, set[0], epoch, entry{set: all}))
	}
	return set, epoch
}

// follow makes a copy equal to the leader's. It returns false if the process dies meanwhile.
func (s *sim) follow(id int32, leader *disk) bool {
	d := s.disks[id]
	if d == leader {
		return true
	}
	if s.dies() {
		return false
	}
	to := int(Part(leader, d, Copy{id, d.last(), int64(len(d.entries))}))
	if to < len(d.entries) {
		s.parted++
	}
	d.cut(to) // also at the end: an epoch without entries is not the leader's
	for _, e := range leader.entries[len(d.entries):] {
		d.append(e)
		if s.dies() {
			return false
		}
	}
	return true
}

// write makes one change on all copies of set. It returns the set and epoch afterwards, or nil if
// the cluster is down or cannot continue.
func (s *sim) write(set []int32, leader int32, epoch int32, e entry) ([]int32, int32) {
	named := slices.Clone(s.named)
	for {
		e.epoch = epoch
		if e.set != nil {
			named = append(named, e.set)
		}
		var left []int32
		for i, id := range s.order(set) {
			if len(left) < i && !slices.Contains(s.inSync, id) {
				continue // a new copy gets a set only after all copies of the old set
			}
			switch roll := s.r.IntN(100); {
			case roll < s.failures/2: // failed, not written
			case roll < s.failures: // failed, but written
				s.disks[id].append(e)
			default:
				s.disks[id].append(e)
				left = append(left, id)
			}
			if s.dies() {
				return nil, 0 // dies before the others have it
			}
		}
		slices.Sort(left)
		if len(left) == len(set) {
			if e.set == nil {
				s.committed = append(s.committed, e.id)
			}
			s.sealed = e.set == nil || s.sealed && Same(left, s.named.Last())
			s.named, s.inSync = Sets{left}, left
			s.shown(left)
			return left, epoch
		}
		if !MayBecome(left, named...) {
			if e.set != nil || !s.inPlace || !s.takeBackFrom(set, e) {
				return nil, 0 // the outcome of the change is unknown
			}
			return set, epoch
		}
		s.shrunk++
		pending := e
		if !slices.Contains(left, leader) {
			s.controllers++
			if leader, epoch = left[0], epoch+1; !s.begin(left, epoch) {
				return nil, 0
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
		for _, id := range s.order(set) {
			if s.r.IntN(100) < s.failures {
				continue
			}
			s.disks[id].append(entry{epoch: epoch, set: set})
			ok = append(ok, id)
			if s.dies() {
				return nil, 0
			}
		}
		slices.Sort(ok)
		if len(ok) == len(set) {
			s.named, s.inSync, s.sealed = Sets{set}, set, false
			s.shown(set)
			return set, epoch
		}
		if !MayBecome(ok, named...) {
			return nil, 0
		}
		if !slices.Contains(ok, leader) {
			if leader, epoch = ok[0], epoch+1; !s.begin(ok, epoch) {
				return nil, 0
			}
		}
		set = ok
	}
}

// check requires that every change that was ever committed is on the copies in sync, in order, and
// that these copies are equal.
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
		for _, refused := range ids {
			if s.refusals[refused] {
				return fmt.Errorf("change %d was refused and is on broker %d", refused, id)
			}
		}
		if !slices.EqualFunc(s.disks[id].entries, s.disks[set[0]].entries, sameEntry) {
			return fmt.Errorf("copies of %d and %d differ", id, set[0])
		}
	}
	return nil
}

// simulate runs some lives of a cluster. simulateInPlace does so with sim.inPlace.
func simulate(seed uint64) (*sim, error) { return live(seed, &sim{r: rand.New(rand.NewPCG(seed, 1))}) }

func simulateInPlace(seed uint64) (*sim, error) {
	return live(seed, &sim{r: rand.New(rand.NewPCG(seed, 2)), inPlace: true})
}

func live(seed uint64, s *sim) (*sim, error) {
	r := s.r
	s.disks, s.refusals = map[int32]*disk{}, map[int]bool{}
	s.failures, s.deaths, s.missing = r.IntN(12), []int{2, 10, 50, 150}[r.IntN(4)], 2+r.IntN(4)
	for id := range int32(1 + r.IntN(5)) {
		s.all = append(s.all, id+1)
		s.disks[id+1] = &disk{}
	}
	for life := range 30 {
		reachable := slices.DeleteFunc(slices.Clone(s.all), func(int32) bool { return life > 0 && r.IntN(s.missing) == 0 })
		if len(reachable) == 0 {
			continue
		}
		s.dead, s.applied = false, nil
		set, epoch := s.open(reachable)
		for range r.IntN(8) {
			serving := set
			if set == nil {
				break
			}
			if err := s.check(set); err != nil {
				return s, fmt.Errorf("seed %d, life %d: %w", seed, life, err)
			}
			switch r.IntN(12) {
			case 0:
				set, epoch = s.leave(set, epoch)
			case 1:
				set, epoch = s.comeBack(set, epoch)
			case 2:
				set, epoch = s.takeBack(set, epoch)
			default:
				s.next++
				set, epoch = s.write(set, set[0], epoch, entry{id: s.next})
			}
			for tries := 0; set == nil && s.inPlace && !s.dead && s.lost == nil && tries < 3; tries++ {
				set, epoch = s.reopen(serving)
			}
			if s.lost != nil {
				return s, fmt.Errorf("seed %d, life %d: %w", seed, life, s.lost)
			}
		}
	}
	return s, nil
}
