package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMutatedRequestsEndAsInKafka sends requests whose bytes were changed. If the bytes are still
// a request, Strata must answer it as Kafka does; otherwise it must close the connection. A valid
// request follows each, and must be answered if the connection stays open.
func TestMutatedRequestsEndAsInKafka(t *testing.T) {
	t.Parallel()
	requests, next := howMany(t, 400, 20_000, 150)
	c := newCampaign(t)
	c.run = (*referee).runMutated
	c.send(t, requests, next)
	c.seen.report(t, c.versions)
	for _, k := range []target{c.pair.kafkas, c.pair.ours} {
		r := &wireClient{addr: k.addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))}
		require.NoError(t, r.dial())
		require.NotEmpty(t, advertised(t, r), "it is still there")
	}
}

// runMutated is run for a script of changed requests. Each uses connections of its own.
func (r *referee) runMutated(a attempt) ([]*finding, error) {
	x, err := r.begin(a)
	if err != nil {
		return nil, err
	}
	for step := range stepsOfAScript {
		if a.leftOut(step, len(opening)) {
			continue
		}
		req, by := x.next(step)
		if req == nil {
			continue
		}
		goesOn := true
		if step < len(opening) {
			goesOn, err = x.step(step, req, by)
		} else {
			goesOn, err = x.mutated(step, req)
		}
		if err != nil {
			err = fmt.Errorf("seed %d, step %d: %w", a.seed, step, err)
		}
		if err != nil || !goesOn {
			return x.found, errors.Join(err, r.sweep(x.m))
		}
		time.Sleep(a.pause)
	}
	return x.found, r.sweep(x.m)
}

// mutated is step for a request that is changed before it is sent.
func (x *script) mutated(step int, req kmsg.Request) (goesOn bool, err error) {
	form := x.theirs.form
	g := newGen(x.seed, step+1000, x.m)
	theirs := form.AppendRequest(nil, req, 5)
	change := g.mutation(theirs)
	theirs = change.apply(theirs)
	ours := change.apply(form.AppendRequest(nil, translate(req, x.ids), 5))
	sent := requestsIn(slices.Concat(theirs, next()))
	if slices.ContainsFunc(sent, func(s sentRequest) bool { return !s.harmless(x.prefix) }) {
		return true, nil
	}
	answers := make(chan [2]exchanged, 1)
	go func() { answers <- [2]exchanged{exchange(x.theirs.addr, theirs), exchange(x.ours.addr, ours)} }()
	got := <-answers
	if err := errors.Join(got[0].err, got[1].err); err != nil {
		return false, err
	}
	first := sent[0]
	x.seen.note(req, nil)
	asked := x.plain(first.text(change.what))
	diffs := x.compareExchanges(sent, got)
	unlisted := x.seen.unlisted(first.like(req), asked, x.plain, diffs)
	if len(unlisted) > 0 {
		how := fmt.Sprintf("%s of %s\n  %s\n  of ", change.what, asked, hex.EncodeToString(theirs))
		x.found = append(x.found, &finding{seed: x.seed, step: step, req: req, diffs: unlisted, how: how, said: fmt.Sprintf("%v\n  %v", got[0], got[1])})
	}
	x.trace = append(x.trace, fmt.Sprintf("%d: %s %s", step, change.what, asked))
	changes := slices.ContainsFunc(sent, func(s sentRequest) bool { return s.req == nil || !readOnly[s.key] })
	// A request that this code cannot read may have changed the brokers' state.
	if len(diffs) > 0 && changes {
		return false, nil
	}
	for _, s := range sent {
		if s.req != nil {
			err = errors.Join(err, x.settled(s, got[0]))
		}
	}
	return true, err
}

// settled waits until a request has no further effect.
func (x *script) settled(s sentRequest, theirs exchanged) error {
	for _, frame := range theirs.frames {
		if len(frame) < 4 || int32(binary.BigEndian.Uint32(frame)) != s.correlation {
			continue
		}
		if resp, err := s.response(frame); err == nil {
			if beat, ok := resp.(*kmsg.StreamsGroupHeartbeatResponse); ok {
				return x.internalTopics(beat, x.m)
			}
		}
	}
	return x.rest(s.req)
}

// A sentRequest is one request in a byte sequence, divided by the size fields as in brokers.
type sentRequest struct {
	key, version int16
	correlation  int32
	req          kmsg.Request // nil: it cannot be read
	how          string       // how it was read
	whole        bool
}

func requestsIn(b []byte) (all []sentRequest) {
	for len(b) >= 4 {
		size := int(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		s := sentRequest{key: -1, version: -1, correlation: -1}
		if size >= 0 && size <= len(b) {
			s.whole = true
			s.read(b[:size])
			b = b[size:]
		} else {
			b = nil
		}
		all = append(all, s)
	}
	return all
}

func (s *sentRequest) read(frame []byte) {
	if len(frame) < 10 {
		return
	}
	s.key, s.version = int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	s.correlation = int32(binary.BigEndian.Uint32(frame[4:]))
	req := kmsg.RequestForKey(s.key)
	if req == nil || s.version < 0 || s.version > req.MaxVersion() {
		return
	}
	req.SetVersion(s.version)
	body := frame[10:]
	switch n := int(int16(binary.BigEndian.Uint16(frame[8:]))); {
	case n > len(body) || n < -1:
		return
	case n > 0:
		body = body[n:]
	}
	if req.IsFlexible() {
		var ok bool
		if body, ok = behindTags(body); !ok {
			return
		}
	}
	if req.ReadFrom(body) != nil {
		return
	}
	s.req = req
	if again := req.AppendTo(nil); !bytes.HasPrefix(body, again) {
		s.how = " (loosely)" // such as a null in a field that is not nullable, or a flag of 2
	}
}

// behindTags returns the bytes after the tagged fields of a header.
func behindTags(b []byte) (rest []byte, ok bool) {
	next := func() (v uint64) {
		v, n := binary.Uvarint(b)
		ok = n > 0
		b = b[max(n, 0):]
		return v
	}
	for count := next(); ok && count > 0; count-- {
		next()
		if size := next(); ok && size <= uint64(len(b)) {
			b = b[size:]
		} else {
			ok = false
		}
	}
	return b, ok
}

// text returns the request as the patterns of deviations match it.
func (s sentRequest) text(what string) string {
	if s.req == nil {
		return fmt.Sprintf("no request, %s, key %d, version %d, %t", what, s.key, s.version, s.whole)
	}
	return what + s.how + " " + jsonOf(s.req)
}

// like returns the request for looking up deviations.
func (s sentRequest) like(original kmsg.Request) kmsg.Request {
	if s.req != nil {
		return s.req
	}
	return original
}

// harmless reports whether the request leaves the brokers unchanged for other scripts, and is
// fast.
func (s sentRequest) harmless(prefix string) bool {
	switch q := s.req.(type) {
	case *kmsg.UpdateFeaturesRequest:
		return q.ValidateOnly
	case *kmsg.UnregisterBrokerRequest:
		return false
	case *kmsg.CreateTopicsRequest: // even validation places partitions in Kafka's memory
		return !slices.ContainsFunc(q.Topics, func(t kmsg.CreateTopicsRequestTopic) bool {
			return t.NumPartitions > 10 || !q.ValidateOnly && !strings.HasPrefix(t.Topic, prefix[:1])
		})
	case *kmsg.CreatePartitionsRequest:
		return !slices.ContainsFunc(q.Topics, func(t kmsg.CreatePartitionsRequestTopic) bool { return t.Count > 10 })
	case *kmsg.AlterConfigsRequest:
		return q.ValidateOnly || !slices.ContainsFunc(q.Resources, func(r kmsg.AlterConfigsRequestResource) bool { return r.ResourceType != 2 })
	case *kmsg.IncrementalAlterConfigsRequest:
		return q.ValidateOnly || !slices.ContainsFunc(q.Resources, func(r kmsg.IncrementalAlterConfigsRequestResource) bool { return r.ResourceType != 2 })
	case *kmsg.AlterClientQuotasRequest:
		return q.ValidateOnly
	case *kmsg.DeleteACLsRequest:
		return !slices.ContainsFunc(q.Filters, func(f kmsg.DeleteACLsRequestFilter) bool {
			return f.Principal == nil || !strings.Contains(*f.Principal, prefix)
		})
	case *kmsg.DeleteTopicsRequest:
		return !strings.Contains(jsonOf(q), "__")
	}
	return !slices.Contains([]int16{64, 80, 81}, s.key) // these change Kafka's cluster
}

// An exchanged has the frames that a broker returned for some bytes.
type exchanged struct {
	frames [][]byte
	end    string // closed, or waits: no more frames arrived
	err    error  // of dialling
}

func (e exchanged) String() string { return fmt.Sprintf("%x, %s", e.frames, e.end) }

// followed is the correlation id of the request that follows. The durations are the waits for more
// frames before and after the write side is closed.
const (
	followed  = 0x0f0f0f0f
	untilHalf = time.Second
	untilGone = 3 * time.Second
)

// exchange sends bytes and a valid request over a new connection. It reads frames until the answer
// to the valid request.
func exchange(addr string, b []byte) (e exchanged) {
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return exchanged{err: err}
	}
	defer nc.Close()
	nc.Write(slices.Concat(b, next()))
	for half := false; ; {
		nc.SetReadDeadline(time.Now().Add(untilHalf))
		if half {
			nc.SetReadDeadline(time.Now().Add(untilGone))
		}
		frame, err := readFrame(nc)
		var late net.Error
		switch {
		case err == nil:
			e.frames = append(e.frames, frame)
			if len(frame) >= 4 && binary.BigEndian.Uint32(frame) == followed {
				e.end = "goes on"
				return e
			}
		case !errors.As(err, &late) || !late.Timeout():
			e.end = "closed"
			return e
		case half:
			e.end = "waits"
			return e
		default:
			half = true
			nc.(*net.TCPConn).CloseWrite()
		}
	}
}

// next returns the valid request that follows.
func next() []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("next")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), followed)
}

func readFrame(nc net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(nc, frame)
	return frame, err
}

// compareExchanges compares the answers to the sent requests, and how the connections ended.
func (x *script) compareExchanges(sent []sentRequest, got [2]exchanged) (diffs []difference) {
	for i := range max(len(got[0].frames), len(got[1].frames)) {
		theirs, ours := x.told(sent, got[0], i), x.told(sent, got[1], i)
		if i >= len(got[0].frames) || i >= len(got[1].frames) {
			return append(diffs, difference{"", "", plainly(theirs), plainly(ours)})
		}
		var w view
		if i < len(sent) && sent[i].req != nil {
			w.twice = namesTwice(jsonTree(sent[i].req))
		}
		if w.twice {
			theirs, ours = merged(theirs), merged(ours)
		}
		diffs = append(diffs, x.ids.diff(place{}, theirs, ours)...)
	}
	if got[0].end != got[1].end {
		diffs = append(diffs, difference{".end", ".end", got[0].end, got[1].end})
	}
	return diffs
}

// told returns the broker's answer i as a tree. It returns bytes if they cannot be read as the
// answer to the request with that correlation id. After the last frame it returns how the
// connection ended.
func (x *script) told(sent []sentRequest, e exchanged, i int) any {
	if i >= len(e.frames) {
		return scalar(map[string]string{"waits": "hangs"}[e.end] + strings.TrimPrefix(e.end, "waits"))
	}
	frame := e.frames[i]
	if len(frame) < 4 {
		return scalar(hex.EncodeToString(frame))
	}
	correlation := int32(binary.BigEndian.Uint32(frame))
	if correlation == followed {
		return scalar("the answer to the next")
	}
	for _, s := range sent {
		if s.correlation != correlation {
			continue
		}
		if resp, err := s.response(frame); err == nil {
			return view{prefix: x.prefix, asked: s.text("")}.tree("", reflect.ValueOf(resp))
		}
	}
	return scalar(hex.EncodeToString(frame))
}

// response reads an answer to the request.
func (s sentRequest) response(frame []byte) (kmsg.Response, error) {
	resp := kmsg.ResponseForKey(s.key)
	if resp == nil {
		return nil, errors.New("of no API")
	}
	resp.SetVersion(s.version)
	if s.key == 18 && (s.version < 0 || s.version > 4) {
		resp.SetVersion(0)
	}
	body := frame[4:]
	if resp.IsFlexible() && s.key != 18 {
		if len(body) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// A mutation is a change of bytes. It changes the same place in other bytes.
type mutation struct {
	what  string
	apply func([]byte) []byte
}

// resized updates a frame's size field.
func resized(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// mutation chooses a change of a frame.
func (g *gen) mutation(frame []byte) mutation {
	// The size, the API, its version, the correlation id, the length of the client id.
	const head = 14
	at := head + g.rng.IntN(len(frame)-head+1)
	many := g.rng.IntN(12) + 1
	noise := make([]byte, many)
	for i := range noise {
		noise[i] = byte(g.rng.IntN(256))
	}
	before := func(b []byte) int { return min(at, len(b)) }
	switch g.rng.IntN(14) {
	case 0:
		return mutation{"as it is", slices.Clone[[]byte]}
	case 1, 2, 3:
		return g.flips(len(frame))
	case 4, 5:
		return g.overwritten(at)
	case 6:
		return mutation{"cut off", func(b []byte) []byte { return resized(slices.Clone(b[:before(b)])) }}
	case 7:
		return mutation{"longer", func(b []byte) []byte { return resized(slices.Concat(b, noise)) }}
	case 8:
		return mutation{"with more inside", func(b []byte) []byte { return resized(slices.Insert(slices.Clone(b), before(b), noise...)) }}
	case 9:
		return mutation{"with less inside", func(b []byte) []byte {
			return resized(slices.Delete(slices.Clone(b), before(b), min(before(b)+many, len(b))))
		}}
	case 10:
		size := pick(g, 0, -1, math.MinInt32, math.MaxInt32, 100<<20+1, 1<<20, 1, 4, 7, 8, 9, 10, len(frame)-4-1, len(frame)-4+1)
		return mutation{fmt.Sprintf("of size %d", size), func(b []byte) []byte {
			b = slices.Clone(b)
			binary.BigEndian.PutUint32(b, uint32(int32(size)))
			return b
		}}
	case 11:
		return g.header(4, -1, 4, 5, 6, 7, 52, 56, 58, 62, 67, 70, 73, 93, 100, 999, math.MaxInt16, math.MinInt16)
	case 12:
		return g.header(6, -1, 2, 5, 14, 19, 20, 99, math.MaxInt16, math.MinInt16)
	}
	return g.header(12, -1, -2, 0, 1, 4, 6, 300, math.MaxInt16, math.MinInt16)
}

// header sets a two-byte number in a request's header.
func (g *gen) header(at int, to ...int) mutation {
	n := pick(g, to...)
	name := map[int]string{4: "key", 6: "version", 12: "length of the client id"}[at]
	return mutation{fmt.Sprintf("of %s %d", name, n), func(b []byte) []byte {
		b = slices.Clone(b)
		binary.BigEndian.PutUint16(b[at:], uint16(int16(n)))
		return b
	}}
}

// flips flips some bits after the version.
func (g *gen) flips(size int) mutation {
	var bits []int
	for range pick(g, 1, 1, 1, 2, 3) {
		bits = append(bits, 8*8+g.rng.IntN(8*size-8*8))
	}
	return mutation{"with flipped bits", func(b []byte) []byte {
		b = slices.Clone(b)
		for _, bit := range bits {
			if bit/8 < len(b) {
				b[bit/8] ^= 1 << (bit % 8)
			}
		}
		return b
	}}
}

// overwritten writes a number over the bytes at a place: an invalid or a large length.
func (g *gen) overwritten(at int) mutation {
	n := pick(g, uint64(0), 1, math.MaxUint64, math.MaxInt64, 1<<63, 0xffff_fffe<<32, 0x8080_8080_8080_8080, 0xffff_ffff_0f00_0000, 0x8000_0000_0000_0000|1<<32)
	size := pick(g, 1, 2, 4, 5, 8)
	number := binary.BigEndian.AppendUint64(nil, n)[:size]
	return mutation{fmt.Sprintf("with %x in it", number), func(b []byte) []byte {
		b = slices.Clone(b)
		copy(b[min(at, len(b)):], number)
		return b
	}}
}

func TestMutationsKeepToTheirPlace(t *testing.T) {
	seen := map[string]bool{}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe")).AppendRequest(nil, req, 5)
	before := slices.Clone(frame)
	for seed := range uint64(500) {
		change := newGen(seed, 0, newModel("a")).mutation(frame)
		seen[strings.Trim(change.what, "-0123456789")] = true
		got := change.apply(frame)
		require.Equal(t, before, frame, "what it is given stays")
		require.Equal(t, got, change.apply(frame), "it follows from the seed")
		requestsIn(got)
	}
	require.Greater(t, len(seen), 6)
	whole := requestsIn(frame)
	require.Len(t, whole, 1)
	require.True(t, reflect.DeepEqual(req, whole[0].req))
}
