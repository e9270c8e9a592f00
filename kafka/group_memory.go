package kafka

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/offsets"
)

const (
	// leastKept is the size from which the parts of a request are charged. Smaller ones are
	// included in the charge of their member.
	leastKept = 64
	// memberBytes is the memory of a member without the parts of its request.
	memberBytes = 1 << 10
	// groupBytes is the memory of a group without its name and its members.
	groupBytes = 3 << 9
	// leastTexts is the size from which the names in a heartbeat of a joined member are charged.
	// Smaller ones are included in memberBytes.
	leastTexts = 256
	// collectEvery is the least time between two garbage collections for requests that would
	// otherwise be rejected. Without it a client could keep the processors busy with them.
	collectEvery = time.Second
	// collectWait is the time that a request waits after a collection for returned bytes.
	collectWait = 200 * time.Millisecond
)

// groupMemory is the memory of groups and their members, with the names, subscriptions,
// assignments, topologies and tags that members have sent. Coordinators keep it after the request
// and its connection have ended, for a classic member up to half an hour. The budget is shared by
// all coordinators, which charge it for offsets, transactional ids and states of share groups. A
// principal has half of it.
//
// Memory is charged while it is reachable: the garbage collector returns it. So the charge is
// right for any kind of group, without reports from the group.
type groupMemory struct {
	size   int // bytes
	budget *memory.Budget

	mu        sync.Mutex    // guards the fields below; a leaf
	collected time.Time     // last garbage collection for a take
	gave      chan struct{} // closed when bytes are returned; nil if no take waits
}

// A groupCharge charges a principal for the memory that a coordinator keeps of a request.
type groupCharge struct {
	memory *groupMemory
	by     string
}

// groupCharge returns the groupCharge of a call.
func (c *call) groupCharge() groupCharge {
	by := c.principal.String()
	if c.conn.authenticated.Load() == nil {
		by = c.clientHost
	}
	return groupCharge{&c.s.groupMemory, by}
}

// bounded returns the context of a request for which coordinators keep state in a log.
func (c *call) bounded() context.Context { return memory.With(c.ctx, c.groupCharge().bound()) }

func (k groupCharge) bound() memory.Bound { return memory.Bound{Principal: k.by, Bytes: k.memory.size} }

// take charges n bytes. It returns group.ErrGroupMaxSize if too few are free even after unused
// memory is returned. It may collect garbage, and then waits for at most collectWait.
func (k groupCharge) take(n int) error {
	if k.try(n) {
		return nil
	}
	m := k.memory
	m.mu.Lock()
	collect := time.Since(m.collected) >= collectEvery
	if collect {
		m.collected = time.Now()
	}
	m.mu.Unlock()
	if collect {
		runtime.GC() // the runtime's cleanup goroutine calls give later
		late := time.NewTimer(collectWait)
		defer late.Stop()
		for {
			gave := m.nextGive()
			if k.try(n) {
				return nil
			}
			select {
			case <-gave:
			case <-late.C:
				return group.ErrGroupMaxSize
			}
		}
	}
	return group.ErrGroupMaxSize
}

// nextGive returns a channel that is closed when bytes are returned.
func (m *groupMemory) nextGive() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gave == nil {
		m.gave = make(chan struct{})
	}
	return m.gave
}

func (k groupCharge) try(n int) bool { return k.memory.budget.Take(k.bound(), n) }

// give returns n bytes.
func (k groupCharge) give(n int) {
	m := k.memory
	m.budget.Give(k.by, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gave != nil {
		close(m.gave)
		m.gave = nil
	}
}

// until returns n taken bytes when the object that p points to becomes unreachable.
func until[T any](k groupCharge, p *T, n int) { runtime.AddCleanup(p, k.give, n) }

// clone returns a copy of a part of a request, which is charged while it is reachable.
func (k groupCharge) clone(b []byte) ([]byte, error) {
	if len(b) < leastKept {
		return append([]byte(nil), b...), nil
	}
	if err := k.take(len(b)); err != nil {
		return nil, err
	}
	kept := append([]byte(nil), b...)
	until(k, &kept[0], len(b))
	return kept, nil
}

// names returns copies of names that share memory. They are charged while one of them is
// reachable. Short names, and nil, are returned as they are.
func (k groupCharge) names(names []string) ([]string, error) {
	size := 0
	for _, name := range names {
		size += len(name)
	}
	n := size + len(names)*int(unsafe.Sizeof(""))
	if n < leastKept {
		return names, nil
	}
	if err := k.take(n); err != nil {
		return nil, err
	}
	all := make([]byte, 0, max(size, leastKept))
	kept := make([]string, 0, len(names))
	for _, name := range names {
		at := len(all)
		all = append(all, name...)
		kept = append(kept, unsafe.String(unsafe.SliceData(all[at:]), len(name))) // all is not changed any more
	}
	until(k, unsafe.SliceData(all), n)
	return kept, nil
}

// texts replaces texts with copies that share memory. Their size and fixed further bytes are
// charged while one of them is reachable.
func (k groupCharge) texts(fixed int, texts ...*string) error {
	size := 0
	for _, t := range texts {
		size += len(*t)
	}
	n := fixed + size
	if err := k.take(n); err != nil {
		return err
	}
	all := make([]byte, 0, max(size, leastKept))
	for _, t := range texts {
		if at := len(all); len(*t) > 0 {
			all = append(all, *t...)
			*t = unsafe.String(&all[at], len(*t)) // all is not changed any more
		}
	}
	until(k, unsafe.SliceData(all), n)
	return nil
}

// member charges for the names in a member's heartbeat while they are reachable, and replaces them
// with copies. It does so if the member joins, also for the name of the group, which may be new,
// or if the names are long. The group keeps a name that a heartbeat omits.
func (k groupCharge) member(epoch int32, group *string, names ...*string) error {
	if epoch == 0 {
		if err := k.texts(groupBytes, group); err != nil {
			return err
		}
		return k.texts(memberBytes, names...)
	}
	size := 0
	for _, name := range names {
		size += len(*name)
	}
	if epoch < 0 || size < leastTexts {
		return nil
	}
	return k.texts(0, names...)
}

// streams charges for the topology of a heartbeat while it is reachable. It replaces the client
// tags with copies, see names.
func (k groupCharge) streams(r *group.StreamsHeartbeatRequest) error {
	if t := r.Topology; t != nil {
		n := topologyBytes(t)
		if err := k.take(n); err != nil {
			return err
		}
		until(k, t, n)
	}
	if len(r.ClientTags) == 0 {
		return nil
	}
	texts := make([]string, 0, 2*len(r.ClientTags))
	for _, tag := range r.ClientTags {
		texts = append(texts, tag.Key, tag.Value)
	}
	kept, err := k.names(texts)
	if err != nil {
		return err
	}
	for i := range r.ClientTags {
		r.ClientTags[i] = offsets.StreamsPair{Key: kept[2*i], Value: kept[2*i+1]}
	}
	return nil
}

// namedBytesKept is the approximate memory of a name in a topology without its text. It includes
// the name's place in a list, and in the tables that a group builds from the list.
const namedBytesKept = 64

// topologyBytes returns the approximate number of bytes that a group holds for a topology.
func topologyBytes(t *offsets.StreamsTopologyValue) (n int) {
	names := func(list []string) {
		for _, name := range list {
			n += len(name) + namedBytesKept
		}
	}
	topics := func(list []offsets.StreamsTopic) {
		for _, t := range list {
			n += len(t.Name) + namedBytesKept + int(unsafe.Sizeof(t))
			for _, kv := range t.Configs {
				n += len(kv.Key) + len(kv.Value) + int(unsafe.Sizeof(kv))
			}
		}
	}
	n = memberBytes
	for _, s := range t.Subtopologies {
		n += len(s.ID) + namedBytesKept + int(unsafe.Sizeof(s))
		names(s.SourceTopics)
		names(s.SourceTopicRegex)
		names(s.RepartitionSinks)
		topics(s.Changelogs)
		topics(s.RepartitionSources)
		for _, g := range s.CopartitionGroups {
			n += int(unsafe.Sizeof(g)) + 2*(len(g.SourceTopics)+len(g.SourceTopicRegex)+len(g.RepartitionSources))
		}
	}
	return n
}
