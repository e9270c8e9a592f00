package systest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// A process is a cluster as one process uses it. After its death no request has an effect.
// Requests about transactions, and their replies, are sometimes lost.
type process struct {
	*strata.Cluster
	dead  atomic.Bool
	lossy func() bool
	far   *remote.Cluster // the process uses only this, over a network; nil: its requests are calls
}

// farProcess is the backend of a process with a client.
type farProcess struct {
	*remote.Cluster
	p *process
}

func (f farProcess) TxnCoordinator() producer.TxnCoordinator {
	return mortalCoordinator{f.Cluster.TxnCoordinator(), f.p}
}

// OpenProducer hides the method of the client, whose sessions lose no requests.
func (f farProcess) OpenProducer(producer.Session) (producer.Backend, func(), error) {
	return f, func() {}, nil
}

// backend returns what producers and consumers of the process use.
func (p *process) backend() backend {
	if p.far != nil {
		return farProcess{p.far, p}
	}
	return p
}

// die ends the process.
func (p *process) die() {
	p.dead.Store(true)
	if p.far != nil {
		_ = p.far.Close()
	}
}

var errDead = fmt.Errorf("the process is dead: %w", replication.ErrClosed)

func (p *process) Produce(req *partition.ProduceRequest) {
	if p.dead.Load() {
		req.Done(partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: errDead})
		return
	}
	p.Cluster.Produce(req)
}

func (p *process) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	return p.Cluster.Fetch(ctx, req)
}

func (p *process) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	if p.dead.Load() {
		<-ctx.Done()
		return group.JoinResponse{}, ctx.Err()
	}
	return p.Cluster.Join(ctx, req)
}

func (p *process) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	if p.dead.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return p.Cluster.Heartbeat(ctx, req)
}

func (p *process) Leave(ctx context.Context, req group.LeaveRequest) ([]error, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	return p.Cluster.Leave(ctx, req)
}

func (p *process) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	return p.Cluster.CommitOffsets(ctx, req)
}

func (p *process) TxnCoordinator() producer.TxnCoordinator {
	return mortalCoordinator{p.Cluster.TxnCoordinator(), p}
}

// mortalCoordinator is the coordinator as a process reaches it.
type mortalCoordinator struct {
	producer.TxnCoordinator
	p *process
}

// do runs a request. The request or its reply may be lost.
func (m mortalCoordinator) do(request func() error) error {
	switch {
	case m.p.dead.Load():
		return errDead
	case m.p.lossy():
		return transaction.ErrCoordinatorNotAvailable
	}
	err := request()
	switch {
	case m.p.dead.Load():
		return errDead
	case m.p.lossy():
		return transaction.ErrNotCoordinator
	}
	return err
}

func (m mortalCoordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (p transaction.Producer, version int16, err error) {
	err = m.do(func() (err error) {
		p, version, err = m.TxnCoordinator.InitProducerID(ctx, id, timeout, before)
		return err
	})
	return p, version, err
}

func (m mortalCoordinator) AddPartitions(ctx context.Context, r transaction.AddRequest) error {
	return m.do(func() error { return m.TxnCoordinator.AddPartitions(ctx, r) })
}

func (m mortalCoordinator) AddOffsets(ctx context.Context, r transaction.AddRequest, id string) error {
	return m.do(func() error { return m.TxnCoordinator.AddOffsets(ctx, r, id) })
}

func (m mortalCoordinator) End(ctx context.Context, r transaction.EndRequest) (p transaction.Producer, err error) {
	err = m.do(func() (err error) {
		p, err = m.TxnCoordinator.End(ctx, r)
		return err
	})
	return p, err
}

func (m mortalCoordinator) CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (per map[record.TopicPartition]error, err error) {
	err = m.do(func() (err error) {
		per, err = m.TxnCoordinator.CommitTxnOffsets(ctx, r)
		return err
	})
	return per, err
}

// transformStorm runs members that transform, fail, die, and are replaced while they still run.
// Brokers lose power.
type transformStorm struct {
	t    *testing.T
	cfg  strata.Config
	disk *vfs.MemFS // of the only broker; nil: there are several

	network *wired.Network // of the members; nil: they are in the process of the brokers

	ended chan struct{} // closed when all input is transformed
	// Has a token while a record is written to "in", and while the power is off.
	writing chan struct{}

	mu      sync.Mutex // guards the fields below
	c       *strata.Cluster
	alive   map[*process]bool
	rnd     *rand.Rand
	calm    bool // no more deaths and losses
	over    bool
	attempt int
	aborted map[string]bool // attempts whose function has failed
	ends    map[string]int  // number of calls of Transform, by result

	wg sync.WaitGroup
}

func (s *transformStorm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *transformStorm) isCalm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm
}

func (s *transformStorm) cluster() *strata.Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

// powerCut kills the only process with brokers, and all its members. The disk loses unsynced data.
func (s *transformStorm) powerCut() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	before := s.c
	if s.network == nil {
		for p := range s.alive {
			p.die()
		}
		clear(s.alive)
	}
	s.disk = s.disk.Crash(uint64(s.rnd.Int64()))
	s.cfg.FS = s.disk
	s.mu.Unlock()
	require.NoError(s.t, before.Close())
	c, err := strata.Open(s.cfg)
	require.NoError(s.t, err)
	if s.network != nil {
		s.network.Replace(s.t, c)
	}
	s.mu.Lock()
	s.c = c
	s.mu.Unlock()
}

// strike cuts a broker's power.
func (s *transformStorm) strike() {
	if s.disk != nil {
		s.powerCut()
		return
	}
	victim := int32(1 + s.n(3))
	require.NoError(s.t, s.c.KillBroker(victim))
	time.Sleep(time.Duration(s.n(400)) * time.Millisecond)
	require.NoError(s.t, s.c.StartBroker(s.t.Context(), victim))
	await(s.t, "another broker is in sync", func() bool {
		for p := range int32(2) {
			if len(s.c.Backend().Status("out", p).ISR) < 2 {
				return false
			}
		}
		return true
	})
}

// member runs in one process after another, with one transactional id.
func (s *transformStorm) member(slot int) {
	for {
		s.mu.Lock()
		over := s.over
		s.mu.Unlock()
		if over {
			return
		}
		p := &process{lossy: func() bool { return s.n(12) == 0 && !s.isCalm() }}
		s.mu.Lock()
		p.Cluster = s.c
		s.alive[p] = true
		s.mu.Unlock()
		if s.network != nil {
			var err error
			if p.far, err = s.network.Open(s.t.Context()); err != nil {
				continue // no broker responds
			}
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel() // if not earlier
		ended := make(chan struct{})
		s.wg.Go(func() {
			defer close(ended)
			s.transform(ctx, p, slot)
			if p.far != nil {
				_ = p.far.Close()
			}
		})
		for end := time.Now().Add(time.Duration(200+s.n(6000)) * time.Millisecond); time.Now().Before(end) || s.isCalm(); {
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ended:
			case <-s.ended:
			}
			break
		}
		switch s.n(3) {
		case 0: // it dies
			p.die()
			cancel()
		case 1: // it ends
			cancel()
			<-ended
		case 2: // it is replaced and runs for a while
			s.wg.Go(func() {
				time.Sleep(time.Duration(s.n(3000)) * time.Millisecond)
				cancel()
			})
		}
	}
}

// write writes one record of the input.
func (s *transformStorm) write(i int) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	p, err := producer.New(s.cluster(), producer.Config{})
	if err == nil {
		_, err = p.Send(s.t.Context(), record.String("in", "", fmt.Sprint(i)).To(int32(i%3)))
		err = errors.Join(err, p.Close())
	}
	if err != nil {
		s.t.Error(err)
	}
}

var errMine = errors.New("the function fails")

// transform runs one process.
func (s *transformStorm) transform(ctx context.Context, p *process, slot int) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	in, err := consumer.New(p.backend(), consumer.Config{Group: "g", Topics: []string{"in"}, MaxPollRecords: 1 + s.n(9), SessionTimeout: 6 * time.Second, MaxPollInterval: 7 * time.Second})
	if err != nil {
		return
	}
	out, err := producer.New(p.backend(), producer.Config{TransactionalID: fmt.Sprint("t", slot), TransactionTimeout: 8 * time.Second, DeliveryTimeout: 10 * time.Second, RequestTimeout: 3 * time.Second})
	require.NoError(s.t, err)
	defer func() {
		if p.dead.Load() {
			_, _ = in.Shutdown(now), out.Shutdown(now)
		} else {
			_, _ = in.Close(), out.Close()
		}
	}()
	for ctx.Err() == nil && !p.dead.Load() {
		err := consumer.TransformBatches(ctx, in, out, s.batch)
		s.mu.Lock()
		switch {
		case err == nil:
			s.ends["nil"]++
		case errors.Is(err, producer.ErrFatal):
			s.ends["fatal"]++
		case errors.Is(err, errMine):
			s.ends["mine"]++
		case errors.Is(err, producer.ErrAbortable):
			s.ends["abortable"]++
		default:
			s.ends["other"]++
		}
		s.mu.Unlock()
		if errors.Is(err, producer.ErrFatal) || errors.Is(err, consumer.ErrClosed) || errors.Is(err, replication.ErrClosed) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// batch emits, for each record of "in", one record to each partition of "out", with the number of
// the attempt.
func (s *transformStorm) batch(ctx context.Context, b *consumer.Batch, tx *producer.Txn) error {
	s.mu.Lock()
	s.attempt++
	attempt := fmt.Sprint(s.attempt)
	s.mu.Unlock()
	for r := range b.All() {
		for part := range int32(2) {
			out := record.Record{Topic: "out", Key: []byte(attempt), Value: r.Value}.To(part)
			if err := tx.Send(ctx, out); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(s.n(60)) * time.Millisecond)
	}
	switch {
	case s.isCalm():
	case s.n(10) == 0:
		s.mu.Lock()
		s.aborted[attempt] = true
		s.mu.Unlock()
		return errMine
	case s.n(10) == 0:
		// In some cases the group reassigns the member's partitions meanwhile.
		time.Sleep(9 * time.Second)
	}
	return nil
}

// watch reads committed records during the storm. None may appear twice, and none of an aborted
// attempt.
func (s *transformStorm) watch(ctx context.Context) {
	for ctx.Err() == nil {
		s.read(ctx)
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// read returns the committed values by partition, and checks them.
func (s *transformStorm) read(ctx context.Context) (values [2][]string) {
	seen := map[string]string{}
	for r, err := range consumer.Read(ctx, s.cluster(), consumer.ReadConfig{Topic: "out"}) {
		if err != nil {
			// The cluster was closed, or a leader is missing for long: the next call reads again.
			return values
		}
		s.mu.Lock()
		if s.aborted[string(r.Key)] {
			s.t.Errorf("%s of attempt %s is read, which was aborted", r.Value, r.Key)
		}
		s.mu.Unlock()
		at := fmt.Sprintf("%d:%s", r.Partition, r.Value)
		if before, twice := seen[at]; twice {
			s.t.Errorf("%s is read twice in partition %d: from attempts %s and %s", r.Value, r.Partition, before, r.Key)
		}
		seen[at] = string(r.Key)
		values[r.Partition] = append(values[r.Partition], string(r.Value)+" by "+string(r.Key))
	}
	return values
}

// Each record of the input is in the output once, whatever dies. ReadCommitted readers never see
// one twice, or an aborted one. At the end both partitions have the same records, and the group's
// offsets agree with them.
func TestTransformIsExactlyOnceWhoeverDies(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for _, brokers := range []int{1, 3} {
		for _, version := range []int16{2, transaction.LevelZero} {
			for seed := range seeds {
				t.Run(fmt.Sprintf("brokers=%d/version=%d/%d", brokers, max(version, 0), seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { stormTransform(t, brokers, version, seed) })
				})
			}
		}
	}
}

func stormTransform(t *testing.T, brokers int, version int16, seed uint64) {
	const inputs, strikes = 150, 12
	s := &transformStorm{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(brokers))), alive: map[*process]bool{}, writing: make(chan struct{}, 1), ended: make(chan struct{}), aborted: map[string]bool{}, ends: map[string]int{}}
	s.cfg = strata.Config{Dir: "data"}
	if brokers == 1 {
		s.disk = vfs.Mem()
		s.cfg.FS = s.disk
	} else {
		s.cfg, _ = lossy()
	}
	s.cfg.Group.OffsetsPartitions, s.cfg.Transactions.Topic.Partitions, s.cfg.Transactions.Version = 2, 2, version
	c, err := strata.Open(s.cfg)
	require.NoError(t, err)
	s.c = c
	if wired.On(t) {
		s.network = wired.Serve(t, c)
	}
	defer func() { require.NoError(t, s.cluster().Close()) }()
	shape := topic.Config{Partitions: 3, ReplicationFactor: brokers, MinInSyncReplicas: min(brokers, 2)}
	require.NoError(t, c.CreateTopic(t.Context(), "in", shape))
	shape.Partitions = 2
	require.NoError(t, c.CreateTopic(t.Context(), "out", shape))

	watching, stopWatching := context.WithCancel(t.Context())
	s.wg.Go(func() { s.watch(watching) })
	for slot := range 2 {
		s.wg.Go(func() { s.member(slot) })
	}
	s.wg.Go(func() {
		for i := range inputs {
			s.write(i)
			time.Sleep(time.Duration(s.n(250)) * time.Millisecond)
		}
	})
	for range strikes {
		time.Sleep(time.Duration(s.n(2000)) * time.Millisecond)
		s.strike()
	}
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	defer func() {
		if t.Failed() {
			g, err := s.c.Group(t.Context(), "g")
			t.Logf("%+v %v %v", g, err, s.ends)
			l, err := s.c.TransactionCoordinator().List(t.Context())
			t.Logf("%+v %v", l, err)
		}
	}()
	await(t, "all is transformed", func() bool {
		time.Sleep(50 * time.Millisecond)
		got, err := s.c.Backend().FetchOffsets(t.Context(), "g", nil)
		sum := int64(0)
		for _, co := range got {
			sum += co.Offset
		}
		return err == nil && sum >= inputs
	})
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(s.ended)
	stopWatching()
	time.Sleep(time.Minute) // transactions that dead processes left open are aborted
	s.wg.Wait()
	values := s.read(t.Context())
	got, err := s.c.Backend().FetchOffsets(t.Context(), "g", nil)
	require.NoError(t, err)
	for part := range int32(3) {
		require.EqualValues(t, inputs/3, got[record.TopicPartition{Topic: "in", Partition: part}].Offset)
	}
	require.Len(t, values[0], inputs)
	slices.Sort(values[0])
	slices.Sort(values[1])
	require.Equal(t, values[0], values[1], "no transaction is torn")
	t.Logf("%d attempts, Transform ended with %v", s.attempt, slices.Sorted(maps.Keys(s.ends)))
	t.Log(s.ends)
}
