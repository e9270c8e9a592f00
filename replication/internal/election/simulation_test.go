package election

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/progress"
)

// A world simulates one partition. Brokers have disks that lose unsynced entries. Messages are
// lost, late and out of order. A controller commits one change after the other, and the metadata
// reaches each broker at a random time. After every step all entries ever below a high watermark
// must be in the log of every replica that may be elected.
type world struct {
	r   *rand.Rand
	now time.Duration

	// State that the controller has committed.
	part    Partition
	rules   Rules
	brokers map[int32]registration
	history []metadata

	nodes   []*node
	network []func() // messages under way

	safe    []int // values that were below a high watermark of some leader
	value   int   // last value appended
	writers map[int32]string
	topic   progress.Rules // as configured

	seen coverage
}

// coverage counts the cases that a simulation must reach to be meaningful.
type coverage struct {
	acked, elections, unclean, divergences, joins, shrinks, frozen, fromELR, restartedLeader, keptPlace, switched int
}

type registration struct {
	incarnation int64
	alive       bool
}

// metadata is one version of the metadata that brokers receive.
type metadata struct {
	part    Partition
	brokers map[int32]registration
	topic   progress.Rules
}

type node struct {
	id          int32
	incarnation int64
	alive       bool
	clean       bool // stopped in order
	told        int  // version of the metadata
	disk
	hw int64

	epoch  int32            // leader epoch in which it leads or follows
	leader int32            // broker that it follows
	leads  *progress.Leader // nil: it follows
	asked  *Request
	max    int64 // largest high watermark as this leader
}

type entry struct {
	epoch int32
	value int
}

// disk is a simulated log.
type disk struct {
	entries []entry
	starts  []start
	durable int
}

type start struct {
	epoch int32
	at    int
}

func (d *disk) end() int { return len(d.entries) }

func (d *disk) position() progress.Position {
	return progress.Position{End: int64(len(d.entries)), Durable: int64(d.durable)}
}

func (d *disk) last() int32 {
	if len(d.entries) == 0 {
		return -1
	}
	return d.entries[len(d.entries)-1].epoch
}

func (d *disk) begin(epoch int32) {
	if n := len(d.starts); n == 0 || d.starts[n-1].epoch < epoch {
		d.starts = append(d.starts, start{epoch, len(d.entries)})
	}
}

func (d *disk) append(e entry) {
	if n := len(d.starts); n > 0 && d.starts[n-1].epoch > e.epoch {
		panic(fmt.Sprintf("a record of epoch %d behind the start of epoch %d", e.epoch, d.starts[n-1].epoch))
	}
	d.begin(e.epoch)
	d.entries = append(d.entries, e)
}

func (d *disk) cut(to int) {
	d.entries, d.durable = d.entries[:to:to], min(d.durable, to)
	for len(d.starts) > 0 && d.starts[len(d.starts)-1].at >= to {
		d.starts = d.starts[:len(d.starts)-1]
	}
}

func (d *disk) EndOffsetFor(epoch int32) (int32, int64) {
	i := slices.IndexFunc(d.starts, func(s start) bool { return s.epoch > epoch })
	switch {
	case len(d.starts) == 0 || epoch > d.starts[len(d.starts)-1].epoch:
		return -1, -1
	case i < 0:
		return d.starts[len(d.starts)-1].epoch, int64(len(d.entries))
	case i == 0:
		return epoch, int64(d.starts[0].at)
	}
	return d.starts[i-1].epoch, int64(d.starts[i].at)
}

const maxLag = 100 * time.Millisecond

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &world{r: r, brokers: map[int32]registration{}, writers: map[int32]string{}}
	n := 2 + r.IntN(4)
	w.topic = progress.Rules{MinInSync: 1 + r.IntN(min(n, 3)), SyncOnAck: r.IntN(2) == 0, MaxLag: maxLag}
	w.part.Durable = w.topic.SyncOnAck
	w.rules = Rules{MinInSync: w.topic.MinInSync, SyncOnAck: w.topic.SyncOnAck, Acceptable: func(b int32) bool { return w.brokers[b].alive }}
	for id := range int32(n) {
		w.brokers[id] = registration{1, true}
		w.nodes = append(w.nodes, &node{id: id, incarnation: 1, alive: true, epoch: -1, told: -1})
		w.part.Replicas = append(w.part.Replicas, id)
	}
	w.part.InSync = slices.Clone(w.part.Replicas)
	w.publish()
	return w
}

func (w *world) publish() {
	brokers := map[int32]registration{}
	for id, b := range w.brokers {
		brokers[id] = b
	}
	w.history = append(w.history, metadata{w.part, brokers, w.topic})
}

// commit applies a change of the controller to the partition.
func (w *world) commit(c Change) {
	next, out := Apply(w.part, c, w.rules)
	if out.Unclean && out.Changed {
		w.seen.unclean++
		leader := w.nodes[next.Leader]
		// Entries that the new leader lacks are lost, and reported as such. It may not have
		// fetched all entries.
		keep := 0
		for keep < len(w.safe) && keep < leader.end() && leader.entries[keep].value == w.safe[keep] {
			keep++
		}
		w.safe = w.safe[:keep]
	}
	if next.LeaderEpoch != w.part.LeaderEpoch && next.Leader != NoLeader {
		w.seen.elections++
		if slices.Contains(c.Restarted, next.Leader) {
			w.seen.restartedLeader++
		}
		if len(w.part.InSync) == 0 && !out.Unclean {
			w.seen.fromELR++
		}
	}
	if len(next.InSync) < min(w.rules.MinInSync, len(next.Replicas)) {
		w.seen.frozen++
	}
	w.part = next
	w.publish()
}

func (w *world) send(deliver func()) {
	switch w.r.IntN(20) {
	case 0: // lost
	case 1: // twice
		w.network = append(w.network, deliver, deliver)
	default:
		w.network = append(w.network, deliver)
	}
}

// step performs one random action.
func (w *world) step() {
	w.now += time.Duration(w.r.IntN(int(maxLag / 20)))
	n := w.nodes[w.r.IntN(len(w.nodes))]
	switch k := w.r.IntN(100); {
	case k < 30:
		w.deliver()
	case k < 45:
		w.produce(n)
	case k < 55:
		w.sync(n)
	case k < 72:
		w.fetch(n)
	case k < 82:
		w.tell(n)
	case k < 90:
		w.propose(n)
	case k < 92:
		w.kill(n)
	case k < 93:
		w.fence(n)
	case k < 96:
		w.restart(n)
	case k < 97:
		w.stop(n)
	case k == 97:
		w.configure()
	case k == 98 && w.part.Leader != NoLeader:
		w.commit(Change{Prefer: w.part.Replicas[int(w.part.Epoch)%len(w.part.Replicas)]})
	case k == 99 && w.r.IntN(10) == 0:
		for _, n := range w.nodes {
			w.kill(n)
		}
	}
	w.check()
}

func (w *world) deliver() {
	if len(w.network) == 0 {
		return
	}
	i := w.r.IntN(len(w.network))
	m := w.network[i]
	w.network = slices.Delete(w.network, i, i+1)
	m()
}

func (w *world) produce(n *node) {
	if !n.alive || n.leads == nil || !n.leads.MayAppend() && w.r.IntN(2) == 0 { // acks=1 skips it
		return
	}
	for range 1 + w.r.IntN(3) {
		w.value++
		n.append(entry{n.epoch, w.value})
	}
	n.leads.Moved(n.position())
}

func (w *world) sync(n *node) {
	if !n.alive {
		return
	}
	n.durable = n.end()
	if n.leads != nil {
		n.leads.Moved(n.position())
	}
}

// fetch sends a follower's fetch.
func (w *world) fetch(n *node) {
	if !n.alive || n.leads != nil || n.leader == NoLeader || n.epoch < 0 {
		return
	}
	leader, epoch, incarnation := w.nodes[n.leader], n.epoch, n.incarnation
	offset, last := n.end(), n.last()
	report := progress.Report{Broker: n.id, Incarnation: incarnation, Position: n.position()}
	w.send(func() {
		if !leader.alive || leader.leads == nil || leader.epoch != epoch {
			return
		}
		d, diverges, ok := progress.Compare(leader, last, int64(offset))
		var entries []entry
		if ok && !diverges {
			if leader.leads.Reported(report, w.now) != nil {
				return
			}
			if offset > leader.end() {
				panic("a follower that agrees is ahead of its leader")
			}
			entries = slices.Clone(leader.entries[offset:min(offset+w.r.IntN(5), leader.end())])
		}
		hw := leader.leads.HighWatermark()
		w.send(func() {
			if !n.alive || n.incarnation != incarnation || n.epoch != epoch || n.leads != nil || n.end() != offset || !ok {
				return
			}
			if diverges {
				if n.last() == last {
					w.seen.divergences++
					n.cut(int(progress.Cut(n, int64(n.end()), d)))
				}
				return
			}
			for _, e := range entries {
				n.append(e)
			}
			n.hw = min(hw, int64(n.end()))
		})
	})
}

// tell delivers the next version of the metadata to a broker.
func (w *world) tell(n *node) {
	if !n.alive || n.told+1 >= len(w.history) {
		return
	}
	n.told++
	m := w.history[n.told]
	set := progress.Set{Epoch: m.part.Epoch, Replicas: m.part.Replicas, InSync: m.part.InSync}
	switch {
	case m.part.LeaderEpoch == n.epoch:
		if n.leads != nil {
			n.leads.Committed(set, w.now)
			n.leads.Configure(m.topic, w.now)
		}
	case m.part.Leader != n.id:
		n.leads, n.leader, n.epoch, n.asked = nil, m.part.Leader, m.part.LeaderEpoch, nil
		n.cut(n.end()) // the new leader lacks an epoch that n led without a record
	default:
		n.leader, n.epoch, n.asked, n.max = n.id, m.part.LeaderEpoch, nil, 0
		n.begin(n.epoch)
		n.leads = progress.New(progress.Config{
			Self: n.id, Start: int64(n.end()), Own: n.position(), HighWatermark: min(n.hw, int64(n.end())), Set: set, Rules: m.topic, Now: w.now,
		})
		who := fmt.Sprint(n.id, "/", n.incarnation)
		if other, ok := w.writers[n.epoch]; ok && other != who {
			panic(fmt.Sprint("epoch ", n.epoch, " is led by ", other, " and by ", who))
		}
		w.writers[n.epoch] = who
	}
	if n.leads != nil {
		for id, b := range m.brokers {
			n.leads.Broker(id, b.incarnation, b.alive, w.now)
		}
	}
}

// propose makes a leader request another in-sync set, or repeat its request.
func (w *world) propose(n *node) {
	if !n.alive || n.leads == nil {
		return
	}
	n.leads.Tick(w.now)
	if !n.leads.Asked() {
		p, ok := n.leads.Expand()
		if !ok {
			p, ok = n.leads.Shrink(w.now)
		}
		if !ok {
			w.proveDurable(n)
			return
		}
		n.asked = &Request{Leader: n.id, Incarnation: n.incarnation, LeaderEpoch: n.epoch, Epoch: p.Epoch, InSync: p.InSync, Incarnations: p.Incarnations}
		n.asked.Incarnations[slices.Index(p.InSync, n.id)] = n.incarnation
	}
	asked, leads := n.asked, n.leads
	w.send(func() {
		err := Check(w.part, *asked, func(b int32) (int64, bool) { return w.brokers[b].incarnation, w.brokers[b].alive })
		switch {
		case err == nil:
			if len(asked.InSync) > len(w.part.InSync) {
				w.seen.joins++
			} else {
				w.seen.shrinks++
			}
			w.commit(Change{InSync: asked.InSync})
		case err == ErrIneligibleReplica || err == ErrInvalidInSync:
			w.send(func() {
				if n.leads == leads && n.asked == asked {
					n.leads.Refused(w.now)
				}
			})
		}
	})
}

// proveDurable reports to the controller that all acknowledged entries are on stable storage,
// after the policy has changed to SyncOnAck.
func (w *world) proveDurable(n *node) {
	if !n.leads.Durable() {
		return
	}
	m := w.history[n.told]
	w.send(func() {
		if m.part.Epoch == w.part.Epoch && !w.part.Durable {
			w.commit(Change{Synced: true})
			w.seen.switched++
		}
	})
}

func (w *world) kill(n *node) {
	if !n.alive {
		return
	}
	n.alive, n.clean, n.leads = false, false, nil
	n.cut(n.durable + w.r.IntN(n.end()-n.durable+1))
}

func (w *world) fence(n *node) {
	if n.alive || !w.brokers[n.id].alive {
		return
	}
	w.brokers[n.id] = registration{w.brokers[n.id].incarnation, false}
	w.commit(Change{Left: []int32{n.id}})
}

func (w *world) stop(n *node) {
	if !n.alive {
		return
	}
	w.brokers[n.id] = registration{w.brokers[n.id].incarnation, false}
	w.commit(Change{Left: []int32{n.id}})
	n.alive, n.clean, n.leads, n.durable = false, true, nil, n.end()
}

func (w *world) restart(n *node) {
	if n.alive {
		return
	}
	n.incarnation++
	// Recovery syncs the entries that it keeps.
	n.alive, n.epoch, n.leads, n.asked, n.durable = true, -1, nil, nil, n.end()
	n.hw = min(n.hw, int64(n.end()))
	w.brokers[n.id] = registration{n.incarnation, true}
	c := Change{Restarted: []int32{n.id}}
	if !n.clean {
		c.Unclean = c.Restarted
	}
	if !n.clean && w.part.Durable && slices.Contains(w.part.InSync, n.id) {
		w.seen.keptPlace++
	}
	n.clean = false
	w.commit(c)
	n.told = len(w.history) - 2 // n uses no metadata older than its own registration
}

// configure changes the topic.
func (w *world) configure() {
	if w.r.IntN(3) == 0 {
		w.topic.SyncOnAck = !w.topic.SyncOnAck
		w.rules.SyncOnAck = w.topic.SyncOnAck
		w.part.Epoch++ // voids earlier reports of the leader's syncs: image.reconsider
	} else {
		w.topic.MinInSync = 1 + w.r.IntN(3)
		w.rules.MinInSync = w.topic.MinInSync
	}
	w.commit(Change{})
}

// check checks the invariant.
func (w *world) check() {
	for _, n := range w.nodes {
		if n.leads == nil {
			continue
		}
		hw := n.leads.HighWatermark()
		if hw < n.max || hw > int64(n.end()) {
			panic(fmt.Sprintf("high watermark of %d went from %d to %d, end %d", n.id, n.max, hw, n.end()))
		}
		n.max = hw
		if n.epoch != w.part.LeaderEpoch && w.seen.unclean > 0 {
			continue // its entries may have been given up since
		}
		for i := int64(0); i < hw; i++ {
			v := n.entries[i].value
			if i == int64(len(w.safe)) {
				w.safe = append(w.safe, v)
				w.seen.acked++
			}
			if w.safe[i] != v {
				panic(fmt.Sprintf("offset %d was %d, leader %d in epoch %d shows %d", i, w.safe[i], n.id, n.epoch, v))
			}
		}
	}
	for _, n := range w.nodes {
		if !w.part.complete(n.id) || !n.alive && !n.clean && !w.part.Durable {
			continue
		}
		for i, v := range w.safe {
			if i >= n.end() || n.entries[i].value != v {
				panic(fmt.Sprintf("offset %d, %d, was below a high watermark, and %d, which may lead, has not got it: %+v", i, v, n.id, w.part))
			}
		}
	}
}

// settle runs the cluster until it is stable: all brokers live, and no message is lost for ever.
func (w *world) settle() {
	for _, n := range w.nodes {
		w.restart(n)
	}
	for range 200 * len(w.nodes) {
		w.now += maxLag / 20
		for _, n := range w.nodes {
			w.tell(n)
			w.sync(n)
			w.fetch(n)
			w.propose(n)
		}
		for len(w.network) > 0 {
			w.deliver()
		}
		w.check()
	}
}

func simulate(seed uint64, steps int) (w *world, err error) {
	w = newWorld(seed)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("seed %d: %v", seed, p)
		}
	}()
	for range steps {
		w.step()
	}
	w.settle()
	leader := w.part.Leader
	if leader == NoLeader {
		return w, fmt.Errorf("seed %d: all brokers live and nobody leads: %+v", seed, w.part)
	}
	if len(w.part.InSync) != len(w.part.Replicas) {
		return w, fmt.Errorf("seed %d: at rest not all are in sync: %+v", seed, w.part)
	}
	l := w.nodes[leader]
	for _, n := range w.nodes {
		if !slices.Equal(n.entries, l.entries) {
			return w, fmt.Errorf("seed %d: at rest the logs of %d and %d differ", seed, n.id, leader)
		}
	}
	if hw := l.leads.HighWatermark(); hw != int64(l.end()) || !l.leads.Complete() {
		return w, fmt.Errorf("seed %d: at rest the high watermark is %d of %d", seed, hw, l.end())
	}
	return w, nil
}

func (c *coverage) add(o coverage) {
	c.acked += o.acked
	c.elections += o.elections
	c.unclean += o.unclean
	c.divergences += o.divergences
	c.joins += o.joins
	c.shrinks += o.shrinks
	c.frozen += o.frozen
	c.fromELR += o.fromELR
	c.restartedLeader += o.restartedLeader
	c.keptPlace += o.keptPlace
	c.switched += o.switched
}

func TestNoAcknowledgedRecordIsMissingInAReplicaThatMayLead(t *testing.T) {
	seeds := 300
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 20_000
	}
	var seen coverage
	for seed := range uint64(seeds) {
		w, err := simulate(seed, 400)
		require.NoError(t, err)
		seen.add(w.seen)
	}
	t.Logf("%d seeds: %+v", seeds, seen)
	for _, n := range []int{seen.acked, seen.elections, seen.unclean, seen.divergences, seen.joins, seen.shrinks, seen.frozen, seen.fromELR, seen.restartedLeader, seen.keptPlace, seen.switched} {
		require.Positive(t, n, "%+v", seen)
	}
}
