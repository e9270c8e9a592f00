package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/replication"
)

const (
	// longestPoll bounds the wait of one request for any records: a partition that is not part of
	// the request has to wait as long. Kafka: fetch.max.wait.ms.
	longestPoll = 500 * time.Millisecond
	// preferFor is the time for which a follower in the reader's rack is read. Kafka:
	// metadata.max.age.ms.
	preferFor = 5 * time.Minute
	// namesOnlyFetch is the last version of Fetch that names topics instead of their ids.
	namesOnlyFetch = 12
)

// A puller fetches records for one session. For each broker there is either a request without a
// response, or a response with records that were not handed out yet, or neither. When the last
// records of a broker are handed out, the next request is sent at once, for the offsets behind
// them, so that it is under way while the application processes the records.
type puller struct {
	s *session

	mu      sync.Mutex // guards the fields below
	polls   map[int32]*poll
	states  map[int32]*fetchSession // of brokers; used by the poll, if there is one
	answers map[record.TopicPartition]*answer
	prefer  map[record.TopicPartition]preference
	bytes   int           // of all answers
	arrived chan struct{} // closed and replaced when a response arrives
}

// A poll is a fetch request without a response.
type poll struct {
	want      map[record.TopicPartition]partition.FetchPartition
	ids       map[[16]byte]string // names of its topics
	isolation partition.Isolation
	kind      fetchKind
	state     *fetchSession
}

// An answer is the response for one partition, not handed out yet.
type answer struct {
	request   partition.FetchPartition
	isolation partition.Isolation
	next      int64 // offset behind the records
	epoch     int32 // leader epoch of the last batch below next; -1: not known
	preferred int32 // follower to read from instead; -1: none
	cut       bool  // it is empty, but the response has records of others, and may have left some out
	partition.FetchedPartition
}

// fits reports whether the answer has the records behind want, or an error that want would get,
// too.
func (a *answer) fits(want *partition.FetchPartition, isolation partition.Isolation) bool {
	return a.request.Offset == want.Offset && a.request.TopicID == want.TopicID && a.isolation == isolation &&
		(a.Err == nil || a.request.LastFetchedEpoch == want.LastFetchedEpoch)
}

// empty reports whether the answer has neither records nor an error.
func (a *answer) empty() bool { return a.Err == nil && len(a.Bytes) == 0 }

// A preference is a follower that the leader names for reads (KIP-392).
type preference struct {
	broker int32
	until  time.Time
}

func newPuller(s *session) *puller {
	return &puller{s: s, polls: map[int32]*poll{}, states: map[int32]*fetchSession{}, answers: map[record.TopicPartition]*answer{}, prefer: map[record.TopicPartition]preference{}, arrived: make(chan struct{})}
}

// Fetch implements consumer.LogBackend. It returns when a partition has records or an error, and
// after MaxWait. Partitions whose broker has not responded by then have a HighWatermark of -1. If
// MaxWait is 0, it waits for all brokers. Records are verified.
//
// MinBytes is a number of bytes for each broker. The fields InOrder, LeaderOnly, Partial, Reserve,
// Release and Buf have no effect.
func (s *session) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	var timeout <-chan time.Time
	if req.MaxWait > 0 {
		t := time.NewTimer(req.MaxWait)
		defer t.Stop()
		timeout = t.C
	}
	partitions := func(yield func(record.TopicPartition) bool) {
		for i := range req.Partitions {
			if !yield(req.Partitions[i].TopicPartition) {
				return
			}
		}
	}
	if err := s.ensureTopics(ctx, partitions); err != nil {
		return nil, err
	}
	f := fetch{p: s.puller, req: req, want: slices.Clone(req.Partitions), resp: &partition.FetchResponse{Partitions: make([]partition.FetchedPartition, len(req.Partitions))}}
	f.p.drop(&f)
	for late := false; ; {
		arrived, done := f.step(late)
		if done {
			return f.resp, nil
		}
		select {
		case <-arrived:
		case <-timeout:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, replication.ErrClosed
		}
	}
}

// ensureTopics fetches the metadata of the topics of partitions that are not known yet.
func (s *session) ensureTopics(ctx context.Context, partitions iter.Seq[record.TopicPartition]) error {
	missing := map[string]bool{}
	for tp := range partitions {
		if _, ok := s.c.topicOf(tp.Topic); !ok && !missing[tp.Topic] {
			missing[tp.Topic] = true
			if _, err := s.Metadata(ctx, tp.Topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// A fetch is one call of Fetch.
type fetch struct {
	p    *puller
	req  *partition.FetchRequest
	want []partition.FetchPartition // of req; Offset is advanced past returned records
	resp *partition.FetchResponse
}

// step takes the answers that have arrived, and sends the requests that are due. done is true if
// the call can return. Otherwise arrived is closed when the next response arrives.
func (f *fetch) step(late bool) (arrived <-chan struct{}, done bool) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	found, silent := f.collectLocked()
	if !found && !late && (silent || f.req.MaxWait > 0) {
		f.sendLocked()
		return p.arrived, false
	}
	if found && p.s.c.cfg.FetchAhead >= 0 {
		f.sendLocked()
	}
	return nil, true
}

// collectLocked fills the response with the answers that fit, and discards the others. found is
// true if one has records or an error, silent if there may be records of a partition without an
// answer.
func (f *fetch) collectLocked() (found, silent bool) {
	p, room := f.p, f.req.MaxBytes
	for i := range f.want {
		want, got := &f.want[i], &f.resp.Partitions[i]
		*got = partition.FetchedPartition{TopicPartition: want.TopicPartition, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, LeaderEpoch: -1}
		if _, err := p.routeLocked(want, f.req.Rack); err != nil {
			got.Err, found = err, true
			continue
		}
		a := p.answers[want.TopicPartition]
		if a != nil && !a.fits(want, f.req.Isolation) {
			p.removeLocked(a)
			a = nil
		}
		switch {
		case a == nil:
			silent = true
		case len(a.Bytes) > 0 && f.req.MaxBytes > 0 && room <= 0: // the rest is for the next call
		default:
			*got = a.FetchedPartition
			room -= len(a.Bytes)
			found, silent = found || !a.empty(), silent || a.cut
		}
	}
	for i := range f.resp.Partitions {
		got := &f.resp.Partitions[i]
		switch a := p.answers[got.TopicPartition]; {
		case a == nil:
		case got.Err != nil || len(got.Bytes) > 0:
			p.removeLocked(a)
			f.want[i].Offset, f.want[i].LastFetchedEpoch = a.next, a.epoch
		case a.cut && !found:
			got.HighWatermark = -1
		}
	}
	return found, silent
}

func (p *puller) removeLocked(a *answer) {
	p.bytes -= len(a.Bytes)
	delete(p.answers, a.TopicPartition)
}

// drop discards answers that the call cannot use: empty ones, which may be old, and, above the
// bound of memory, those of partitions that the reader does not request now.
func (p *puller) drop(f *fetch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[record.TopicPartition]bool, len(f.want))
	for i := range f.want {
		wanted[f.want[i].TopicPartition] = true
	}
	bound := p.s.c.cfg.FetchAhead
	if bound == 0 {
		bound = f.req.MaxBytes
	}
	for tp, a := range p.answers {
		if wanted[tp] && a.empty() || !wanted[tp] && (bound <= 0 || p.bytes > bound) {
			p.removeLocked(a)
		}
	}
}

// routeLocked returns the broker to read a partition from.
func (p *puller) routeLocked(want *partition.FetchPartition, rack string) (int32, error) {
	t, ok := p.s.c.topicOf(want.Topic)
	switch {
	case !ok || int(want.Partition) >= len(t.Partitions) || want.Partition < 0:
		p.s.c.refreshSoon()
		return 0, &replication.UnknownTopicError{Topic: want.Topic}
	case want.TopicID != [16]byte{} && want.TopicID != t.ID:
		return 0, partition.ErrInconsistentTopicID
	}
	if by, ok := p.prefer[want.TopicPartition]; ok && rack != "" {
		if time.Now().Before(by.until) {
			return by.broker, nil
		}
		delete(p.prefer, want.TopicPartition)
	}
	leader := t.Partitions[want.Partition].Leader
	if leader < 0 {
		p.s.c.refreshSoon()
		return 0, partition.ErrNotLeader
	}
	return leader, nil
}

// sendLocked sends a request to each broker that has none and whose answers are handed out. It
// leaves out partitions whose error the call returns: a response before the caller repeats it would
// be old.
func (f *fetch) sendLocked() {
	p, wait := f.p, f.req.MaxWait
	if f.req.MinBytes <= 1 { // else the response may have records, but not enough
		wait = min(wait, longestPoll)
	}
	type group struct {
		want []*partition.FetchPartition
		hold bool // it has a request, or answers that are not handed out
	}
	groups := map[int32]*group{}
	for i := range f.want {
		want := &f.want[i]
		broker, err := p.routeLocked(want, f.req.Rack)
		if err != nil || f.resp.Partitions[i].Err != nil {
			continue
		}
		g := groups[broker]
		if g == nil {
			g = &group{hold: p.polls[broker] != nil}
			groups[broker] = g
		}
		a := p.answers[want.TopicPartition]
		switch {
		case a == nil || a.empty():
			g.want = append(g.want, want)
		default:
			g.hold = true
		}
	}
	for broker, g := range groups {
		if !g.hold && len(g.want) > 0 {
			f.pollLocked(broker, g.want, wait)
		}
	}
}

// pollLocked sends a request for partitions of one broker on a goroutine of its own, which stores
// the answers.
func (f *fetch) pollLocked(broker int32, want []*partition.FetchPartition, wait time.Duration) {
	p := f.p
	state := p.states[broker]
	if state == nil {
		state = &fetchSession{}
		p.states[broker] = state
	}
	pl := &poll{want: make(map[record.TopicPartition]partition.FetchPartition, len(want)), ids: map[[16]byte]string{}, isolation: f.req.Isolation, state: state}
	names, parts := false, make([]*partition.FetchPartition, len(want))
	for i, w := range want {
		pl.want[w.TopicPartition] = *w
		part := *w
		if t, ok := p.s.c.topicOf(w.Topic); ok && part.TopicID == [16]byte{} {
			part.TopicID = t.ID
		}
		pl.ids[part.TopicID] = w.Topic
		names = names || part.TopicID == [16]byte{}
		parts[i] = &part
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = millis(wait), int32(max(f.req.MinBytes, 1)), wireBytes(f.req.MaxBytes)
	req.IsolationLevel, req.Rack = wireIsolation(f.req.Isolation), f.req.Rack
	pl.kind = state.add(req, parts, names)
	var bounded kmsg.Request = req
	if names {
		bounded = link.AtMost(namesOnlyFetch, req)
	}
	started := p.s.spawn(func() {
		resp, err := toBroker[*kmsg.FetchResponse](p.s.ctx, p.s, "fetch", broker, bounded)
		answers := p.s.answers(pl, resp, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.polls, broker)
		p.storeLocked(answers)
	})
	if started {
		p.polls[broker] = pl
	}
}

// storeLocked keeps the answers of a response for the next call.
func (p *puller) storeLocked(answers []*answer) {
	for _, a := range answers {
		if old := p.answers[a.TopicPartition]; old != nil {
			p.removeLocked(old)
		}
		if a.preferred >= 0 {
			p.prefer[a.TopicPartition] = preference{a.preferred, time.Now().Add(preferFor)}
			continue
		}
		if a.Err != nil {
			delete(p.prefer, a.TopicPartition)
		}
		p.answers[a.TopicPartition] = a
		p.bytes += len(a.Bytes)
	}
	close(p.arrived)
	p.arrived = make(chan struct{})
}

// answers converts a response, or the error of a request without one. Each partition of the request
// has an answer, unless the broker has lost the session or throttles the client: then the request
// is sent again.
func (s *session) answers(pl *poll, resp *kmsg.FetchResponse, err error) (all []*answer) {
	if err == nil {
		err = codeError(fromPartition, resp.ErrorCode, nil)
	}
	if err != nil {
		pl.state.lost()
		if resp != nil && pl.kind == incremental {
			return nil // FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH and the like
		}
	}
	got := map[record.TopicPartition]*kmsg.FetchResponseTopicPartition{}
	if err == nil {
		pl.state.received(pl.kind, resp.SessionID)
		for i := range resp.Topics {
			t := &resp.Topics[i]
			name := t.Topic
			if name == "" {
				name = pl.ids[t.TopicID]
			}
			for k := range t.Partitions {
				tp := record.TopicPartition{Topic: name, Partition: t.Partitions[k].Partition}
				got[tp] = &t.Partitions[k]
				pl.state.note(tp, got[tp])
			}
		}
		if len(got) == 0 && resp.ThrottleMillis > 0 {
			return nil // no news, or nothing was read
		}
	}
	records := false
	for tp, want := range pl.want {
		a := &answer{request: want, isolation: pl.isolation, next: want.Offset, epoch: want.LastFetchedEpoch, preferred: -1, FetchedPartition: partition.FetchedPartition{
			TopicPartition: tp, Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, LeaderEpoch: -1,
		}}
		known := pl.state.parts[tp]
		if p := got[tp]; p != nil {
			s.fill(a, p)
		} else if err == nil && pl.kind == incremental && known != nil {
			a.HighWatermark, a.LastStableOffset, a.LogStartOffset, a.LeaderEpoch = known.highWatermark, known.stable, known.start, s.leaderEpoch(tp)
		} else if err == nil {
			a.Err = passing(fmt.Errorf("%w: fetch: the response left the partition out", ErrUnreachable))
		}
		records = records || len(a.Bytes) > 0
		all = append(all, a)
	}
	for _, a := range all {
		a.cut = records && a.empty()
	}
	return all
}

// fill converts the response for one partition.
func (s *session) fill(a *answer, p *kmsg.FetchResponseTopicPartition) {
	if p.ErrorCode != 0 {
		a.Err = codeError(fromPartition, p.ErrorCode, nil)
		switch p.ErrorCode {
		case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code:
			s.c.moved(a.Topic, a.Partition, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
		case kerr.OffsetOutOfRange.Code:
		default:
			s.c.refreshSoon()
		}
		return
	}
	if d := p.DivergingEpoch; d.EndOffset >= 0 { // KIP-320
		a.Err = &partition.TruncatedError{TopicPartition: a.TopicPartition, Offset: a.next, EndOffset: min(d.EndOffset, a.next), Epoch: d.Epoch}
		return
	}
	if a.Bytes, a.next, a.epoch, a.Err = verify(p.RecordBatches, a.next, a.epoch); a.Err != nil {
		return
	}
	a.preferred = p.PreferredReadReplica
	a.HighWatermark, a.LastStableOffset, a.LogStartOffset = p.HighWatermark, p.LastStableOffset, p.LogStartOffset
	for _, t := range p.AbortedTransactions {
		a.Aborted = append(a.Aborted, partition.AbortedTxn{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	a.LeaderEpoch = s.leaderEpoch(a.TopicPartition)
}

// leaderEpoch returns the leader epoch that the metadata have of a partition, or -1.
func (s *session) leaderEpoch(tp record.TopicPartition) int32 {
	if t, ok := s.c.topicOf(tp.Topic); ok && int(tp.Partition) < len(t.Partitions) {
		return t.Partitions[tp.Partition].LeaderEpoch
	}
	return -1
}

// verify checks the batches of a response to a request with an offset and the leader epoch below
// it. It returns the whole batches, and the offset behind them with its leader epoch. The last
// batch may be incomplete.
func verify(batches []byte, offset int64, below int32) (whole []byte, next int64, epoch int32, err error) {
	n := 0
	next, epoch = offset, below
	for n < len(batches) {
		var b record.Batch
		if err = record.ParseInto(&b, batches[n:]); err == nil && b.Size() <= len(batches)-n {
			err = b.VerifyCRC()
		} else if err == nil || errors.Is(err, record.ErrShort) {
			err = final(fmt.Errorf("remote: fetch: the broker returned only a part of the batch at offset %d", offset))
		}
		if err != nil {
			break
		}
		n += b.Size()
		next, epoch = max(next, b.NextOffset()), b.LeaderEpoch
	}
	if n == 0 && err != nil {
		return nil, offset, below, err
	}
	return batches[:n:n], next, epoch, nil // an error behind whole batches is met again by the next fetch
}

// stop is called when the session has ended. When it returns, no request begins any more.
func (p *puller) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.answers)
	p.bytes = 0
}
