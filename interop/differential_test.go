package interop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

// Seeded random requests, valid and not, go to Apache Kafka and to Strata, and the answers must be
// the same. A script is some dozen requests about names of its own: any one can be run again by its
// seed.
//
//	STRATA_WIRE_SEED=SEED go test -run TestRandomAnswersAreKafkas       one script
//	STRATA_LONG=1 go test -run TestRandomAnswersAreKafkas -timeout 2h    50,000 requests of new seeds
//	STRATA_WIRE_REQUESTS=N                                               as many

const stepsOfAScript = 50

// A wireClient sends requests to one broker.
type wireClient struct {
	addr string
	nc   net.Conn
	form *kmsg.RequestFormatter
	next int32
}

// answerTimeout is how long an answer may take: no request of a script has to wait for long.
const answerTimeout = 15 * time.Second

// errNoAnswer is of a broker that does not answer at all.
var errNoAnswer = errors.New("there is no answer")

var errClosed = errors.New("the connection was closed")

func (c *wireClient) dial() error {
	nc, err := net.DialTimeout("tcp", c.addr, 10*time.Second)
	c.nc = nc
	return err
}

func (c *wireClient) send(req kmsg.Request) error {
	c.next++
	c.nc.SetDeadline(time.Now().Add(answerTimeout))
	b := c.form.AppendRequest(nil, req, c.next)
	_, err := c.nc.Write(b)
	return err
}

// receive returns the answer to req; nil if the broker closed the connection, which is then dialled
// again.
func (c *wireClient) receive(req kmsg.Request) (kmsg.Response, error) {
	resp, err := c.read(req)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		c.nc.Close()
		return nil, errors.Join(errNoAnswer, c.dial())
	}
	if errors.Is(err, errClosed) {
		c.nc.Close()
		return nil, c.dial()
	}
	return resp, err
}

func (c *wireClient) read(req kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return nil, err
		}
		return nil, errClosed
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

func (c *wireClient) ask(req kmsg.Request) (kmsg.Response, error) {
	if err := c.send(req); err != nil {
		c.nc.Close()
		return nil, c.dial()
	}
	return c.receive(req)
}

// errKafkaHangs is of a request that Kafka does not answer, and Strata does.
var errKafkaHangs = errors.New("no answer from Kafka")

// A referee sends scripts to both brokers.
type referee struct {
	theirs, ours *wireClient
	versions     map[int16][2]int16 // that both advertise
	seen         *tally
	trace        []string // of the last run, what was asked and answered
	fence        string
	fenced       int
}

// A tally is what was sent so far.
type tally struct {
	mu    sync.Mutex
	sent  map[offer]int
	good  map[offer]int  // of which Kafka answered so many without any error
	times map[*cause]int // differences by what they come from
}

// An offer is an API in a version that both serve.
type offer struct{ key, version int16 }

func (s offer) String() string { return fmt.Sprintf("%s v%d", kmsg.NameForKey(s.key), s.version) }

func newTally() *tally {
	return &tally{sent: map[offer]int{}, good: map[offer]int{}, times: map[*cause]int{}}
}

func (y *tally) note(req kmsg.Request, theirs kmsg.Response) {
	y.mu.Lock()
	defer y.mu.Unlock()
	s := offer{req.Key(), req.GetVersion()}
	y.sent[s]++
	if theirs != nil && !hasError(reflect.ValueOf(theirs)) {
		y.good[s]++
	}
}

func (y *tally) total() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, sent := range y.sent {
		n += sent
	}
	return n
}

// report prints what was sent and what differs, by cause.
func (y *tally) report(t *testing.T, versions map[int16][2]int16) {
	pairs, fewest, good := 0, 1<<30, 0
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		for v := versions[key][0]; v <= versions[key][1]; v++ {
			s := offer{key, v}
			pairs++
			fewest = min(fewest, y.sent[s])
			if y.good[s] > 0 {
				good++
			} else {
				t.Logf("%v: %d sent, none is answered without an error", s, y.sent[s])
			}
		}
	}
	t.Logf("%d APIs, %d of them and a version, each sent %d times or more, %d answered without an error", len(versions), pairs, fewest, good)
	for _, c := range slices.SortedFunc(maps.Keys(y.times), func(a, b *cause) int { return y.times[b] - y.times[a] }) {
		t.Logf("%d differences: %s", y.times[c], c.why)
	}
	for _, c := range causes() {
		for _, d := range c.places {
			if d.used.Load() == 0 {
				t.Logf("excused nothing: %s", d.line)
			}
		}
	}
}

// hasError reports whether an answer has an error anywhere.
func hasError(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && hasError(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; strings.HasSuffix(name, "ErrorCode") && v.Field(i).CanInt() && v.Field(i).Int() != 0 || name != "UnknownTags" && hasError(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if hasError(v.Index(i)) {
				return true
			}
		}
	}
	return false
}

func newReferee(t *testing.T, kafkas, ours target, name string, seen *tally) *referee {
	r := &referee{fence: name, versions: map[int16][2]int16{}, seen: seen}
	client := func(k target) *wireClient {
		c := &wireClient{addr: k.addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))}
		require.NoError(t, c.dial())
		t.Cleanup(func() { c.nc.Close() })
		return c
	}
	r.theirs, r.ours = client(kafkas), client(ours)
	mine := advertised(t, r.ours)
	for key, v := range advertised(t, r.theirs) {
		if _, both := mine[key]; !both {
			require.NotEmpty(t, notServed[key], kmsg.NameForKey(key))
			continue
		}
		r.versions[key] = [2]int16{max(v[0], mine[key][0]), min(v[1], mine[key][1])}
	}
	// Kafka advertises older ones for the sake of a client's bug, and serves none.
	r.versions[0] = [2]int16{3, r.versions[0][1]}
	return r
}

func advertised(t *testing.T, c *wireClient) map[int16][2]int16 {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "probe", "1"
	got, err := c.ask(req)
	require.NoError(t, err)
	versions := map[int16][2]int16{}
	for _, k := range got.(*kmsg.ApiVersionsResponse).ApiKeys {
		versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return versions
}

// both sends a request to both and returns the answers. hangs says that Kafka is known not to
// answer it; then there is ours with errKafkaHangs.
func (r *referee) both(theirs, ours kmsg.Request, hangs bool) (a, b kmsg.Response, err error) {
	if err := errors.Join(r.theirs.send(theirs), r.ours.send(ours)); err != nil {
		return nil, nil, err
	}
	unanswered := false
	if p, ok := theirs.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		unanswered = true
		// There is no answer, but of the next request there is one, unless the connection is closed.
		theirs, ours = kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsRequest()
		r.theirs.send(theirs)
		r.ours.send(ours)
	}
	b, err = r.ours.receive(ours)
	if err != nil {
		return nil, nil, err
	}
	if hangs {
		r.theirs.nc.SetDeadline(time.Now().Add(time.Second))
	}
	a, err = r.theirs.receive(theirs)
	if errors.Is(err, errNoAnswer) {
		err = errKafkaHangs
		return nil, b, err
	}
	if unanswered && a != nil && b != nil {
		a, b = kmsg.NewPtrProduceResponse(), kmsg.NewPtrProduceResponse() // what counts is that both go on
	}
	return a, b, err
}

// settle waits until Kafka's broker has heard of all that its controller has decided: an access
// control entry comes after all else.
func (r *referee) settle() error {
	principal := "User:" + r.fence
	filter := kmsg.NewPtrDescribeACLsRequest()
	filter.Version, filter.ResourceType, filter.ResourcePatternType, filter.Principal, filter.Operation, filter.PermissionType = 3, 1, 1, &principal, 1, 1
	var change kmsg.Request
	if r.fenced++; r.fenced%2 == 1 {
		req, entry := kmsg.NewPtrCreateACLsRequest(), kmsg.NewCreateACLsRequestCreation()
		entry.ResourceType, entry.ResourceName, entry.ResourcePatternType, entry.Principal, entry.Host, entry.Operation, entry.PermissionType = 2, r.fence, 3, principal, "*", 3, 3
		req.Creations = append(req.Creations, entry)
		change = req
	} else {
		req, entry := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewDeleteACLsRequestFilter()
		entry.ResourceType, entry.ResourcePatternType, entry.Principal, entry.Operation, entry.PermissionType = 1, 1, &principal, 1, 1
		req.Filters = append(req.Filters, entry)
		change = req
	}
	change.SetVersion(3)
	if _, err := r.theirs.ask(change); err != nil {
		return err
	}
	return until(func() (bool, error) {
		got, err := r.theirs.ask(filter)
		if err != nil || got == nil {
			return false, err
		}
		return len(got.(*kmsg.DescribeACLsResponse).Resources) == r.fenced%2, nil
	})
}

// ended waits until no transaction of an id is being ended.
func (r *referee) ended(transactionalID string) error {
	for _, c := range []*wireClient{r.theirs, r.ours} {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{transactionalID}
		err := until(func() (bool, error) {
			got, err := c.ask(req)
			if err != nil || got == nil {
				return false, err
			}
			return !strings.HasPrefix(got.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State, "Prepare"), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func until(done func() (bool, error)) error {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return errors.New("a broker does not come to rest")
}

// changes are APIs that Kafka's controller decides on, and its broker hears of later.
var changes = map[int16]bool{19: true, 20: true, 37: true, 33: true, 44: true, 45: true, 43: true, 30: true, 31: true, 49: true, 51: true, 57: true}

// A finding is a step whose answers differ.
type finding struct {
	seed         uint64
	step         int
	req          kmsg.Request
	theirs, ours kmsg.Response
	diffs        []difference
}

func (f *finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, step %d: %s v%d %s\n", f.seed, f.step, kmsg.NameForKey(f.req.Key()), f.req.GetVersion(), jsonOf(f.req))
	for _, d := range f.diffs {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	fmt.Fprintf(&b, "  Kafka:  %s\n  Strata: %s", jsonOf(f.theirs), jsonOf(f.ours))
	return b.String()
}

// sign is what findings of one cause have in common.
func (f *finding) sign() string {
	d := f.diffs[0]
	return fmt.Sprintf("%s %s | %.90s | %.90s", kmsg.NameForKey(f.req.Key()), d.path, d.theirs, d.ours)
}

func jsonOf(v any) string {
	if v == nil || reflect.ValueOf(v).IsNil() {
		return "closed"
	}
	if req, ok := v.(kmsg.Request); ok {
		v = withoutNaN(req)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// withoutNaN returns a request that can be written as JSON.
func withoutNaN(req kmsg.Request) kmsg.Request {
	q, ok := req.(*kmsg.AlterClientQuotasRequest)
	if !ok {
		return req
	}
	q = translate(q, newCorrespondence()).(*kmsg.AlterClientQuotasRequest)
	for _, e := range q.Entries {
		for i := range e.Ops {
			if math.IsNaN(e.Ops[i].Value) {
				e.Ops[i].Value = -404
			}
		}
	}
	return q
}

// run runs a script, up to the first finding after which the brokers may have different states: that
// is, any but of texts. only are the steps to run, nil: all. It returns how many requests were sent.
func (r *referee) run(seed uint64, prefix string, pause time.Duration, only map[int]bool, seen *tally) (found []*finding, err error) {
	// Sessions and groups' members belong to connections.
	for _, c := range []*wireClient{r.theirs, r.ours} {
		c.nc.Close()
		if err := c.dial(); err != nil {
			return nil, err
		}
	}
	plain := strings.NewReplacer(prefix, "P").Replace
	r.trace = nil
	m, ids := newModel(prefix), newCorrespondence()
	defer func() { err = errors.Join(err, r.sweep(m)) }()
	theme := themes[newGen(seed, -1, m).rng.IntN(len(themes))]
	for step := range stepsOfAScript {
		if step >= len(opening) && only != nil && !only[step] {
			continue
		}
		g := newGen(seed, step, m)
		var req kmsg.Request
		if step < len(opening) {
			req = opening[step](m)
		} else {
			key := pick(g, theme...)
			if g.one(5) {
				key = pick(g, themes[len(themes)-1]...)
			}
			v, advertised := r.versions[key]
			if !advertised {
				continue
			}
			req = g.request(key, v[0]+int16(g.rng.IntN(int(v[1]-v[0])+1)))
		}
		asked := plain(jsonOf(req))
		theirs, ours, err := r.both(req, translate(req, ids), find(req, asked, difference{theirs: "hangs"}) != nil)
		hangs := errors.Is(err, errKafkaHangs)
		if err != nil && !hangs {
			return found, fmt.Errorf("seed %d, step %d: %s v%d %s: %w", seed, step, kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req), err)
		}
		seen.note(req, theirs)
		w := viewOf(prefix, req)
		diffs := ids.compare(w, theirs, ours)
		if hangs {
			diffs = []difference{{"", "", "hangs", plainly(w.tree("", reflect.ValueOf(ours)))}}
		}
		r.trace = append(r.trace, fmt.Sprintf("%d: %s %s\n      %s", step, kmsg.NameForKey(req.Key()), asked, plain(jsonOf(theirs))))
		left := seen.unlisted(req, plain, diffs)
		if len(left) > 0 {
			found = append(found, &finding{seed, step, req, theirs, ours, left})
		}
		ofStates := func(d difference) bool {
			return !strings.HasSuffix(d.path, ".ErrorMessage") && !strings.Contains(d.path, ".Configs[")
		}
		if hangs || slices.ContainsFunc(left, ofStates) || !readOnly[req.Key()] && slices.ContainsFunc(diffs, ofStates) {
			return found, nil
		}
		if req.Key() == 11 && w.twice {
			return found, nil // Kafka's group counts the support for a protocol of a member's twice from now on
		}
		if theirs == nil {
			m.session, m.sessionEpoch, m.groups[2].session = 0, 0, 0
			continue
		}
		m.learn(req, theirs)
		switch q := req.(type) {
		case *kmsg.EndTxnRequest:
			err = r.ended(q.TransactionalID)
		case *kmsg.InitProducerIDRequest:
			if q.TransactionalID != nil && *q.TransactionalID != "" {
				err = r.ended(*q.TransactionalID)
			}
		}
		if changes[req.Key()] {
			err = errors.Join(err, r.settle())
		}
		if err != nil {
			return found, fmt.Errorf("seed %d, step %d: %s: %w", seed, step, jsonOf(req), err)
		}
		time.Sleep(pause)
	}
	return found, nil
}

// sweep deletes the topics of a script: thousands would make brokers slow.
func (r *referee) sweep(m *model) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	for _, t := range m.topics {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = &t.name
		req.Topics = append(req.Topics, rt)
	}
	_, theirs := r.theirs.ask(req)
	_, ours := r.ours.ask(req)
	return errors.Join(theirs, ours)
}

// readOnly are APIs that change nothing.
var readOnly = map[int16]bool{2: true, 3: true, 9: true, 10: true, 15: true, 16: true, 18: true, 23: true, 29: true, 32: true, 35: true, 41: true, 46: true, 48: true, 50: true, 55: true, 60: true, 61: true, 65: true, 66: true, 69: true, 74: true, 75: true, 77: true, 90: true}

// opening is what every script begins with: two topics, of which one has records.
var opening = []func(*model) kmsg.Request{
	func(m *model) kmsg.Request {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Version, r.TimeoutMillis = 7, 10_000
		for i := range 2 {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = m.topics[i].name, int32(2-i), 1
			r.Topics = append(r.Topics, t)
		}
		return r
	},
	func(m *model) kmsg.Request {
		r, t := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic()
		r.Version, r.Acks, r.TimeoutMillis, t.Topic = 9, -1, 10_000, m.topics[0].name
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = newGen(1, 0, &model{}).plainRecords(5)
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
		return r
	},
}

// differentialFindings runs scripts in parallel, and returns what differs in two runs of the same
// script.
func differentialFindings(t *testing.T, seen *tally, seeds func() (uint64, bool), workers int) (all []*finding, versions map[int16][2]int16) {
	kafkas := startKafkaWith(t, "auto.create.topics.enable=false", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS", "share.coordinator.state.topic.num.partitions=50")
	ours := startStrataAuthorizing(t)
	for _, k := range []target{kafkas, ours} {
		warm(t, k)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range workers {
		r := newReferee(t, kafkas, ours, fmt.Sprint("fence", i), seen)
		versions = r.versions
		wg.Go(func() {
			for {
				mu.Lock()
				seed, more := seeds()
				mu.Unlock()
				if !more {
					return
				}
				found, err := r.run(seed, fmt.Sprintf("a%x", seed), 0, nil, seen)
				if len(found) > 0 {
					// Kafka's broker does some things a moment later: only what is seen again, with time
					// between the requests, is a finding.
					again := func(try string, only map[int]bool) []*finding {
						fs, err2 := r.run(seed, fmt.Sprintf("%s%x", try, seed), 20*time.Millisecond, only, newTally())
						err = errors.Join(err, err2)
						return fs
					}
					second := again("b", nil)
					found = slices.DeleteFunc(found, func(f *finding) bool {
						gone := f.in(second) == nil
						if gone && os.Getenv("STRATA_INTEROP_LOG") != "" {
							t.Logf("not seen again: %s", f)
						}
						return gone
					})
					if os.Getenv("STRATA_WIRE_SEED") != "" {
						for i, f := range found {
							found[i] = shrink(f, again)
							t.Logf("step %d follows from\n    %s", f.step, strings.Join(r.trace, "\n    "))
						}
					}
				}
				mu.Lock()
				if err != nil {
					t.Errorf("%v\n%s", err, kafkaSaid(kafkas))
					seeds = func() (uint64, bool) { return 0, false }
				}
				all = append(all, found...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, versions
}

// in returns f as it was found in another run of its script.
func (f *finding) in(others []*finding) *finding {
	for _, o := range others {
		if o.step == f.step && o.diffs[0].path == f.diffs[0].path {
			return o
		}
	}
	return nil
}

// shrink leaves out steps that a finding does not need.
func shrink(f *finding, again func(string, map[int]bool) []*finding) *finding {
	keep := map[int]bool{}
	for i := range f.step + 1 {
		keep[i] = true
	}
	for i, try := f.step-1, 0; i >= len(opening); i, try = i-1, try+1 {
		delete(keep, i)
		if g := f.in(again(fmt.Sprint("c", try, "-"), keep)); g == nil {
			keep[i] = true
		} else {
			f = g
		}
	}
	f.diffs = append(f.diffs, difference{"needed are the steps", "", fmt.Sprint(slices.Sorted(maps.Keys(keep))), ""})
	return f
}

// usualSeeds are those of the scripts that are always run. They stay the same, so that what they
// say of a change is about the change; the long form looks for what is new.
const usualSeeds = 30_000

// TestRandomAnswersAreKafkas runs some hundred requests, and with STRATA_LONG 50,000. Differences
// that are known are in differential.txt.
func TestRandomAnswersAreKafkas(t *testing.T) {
	t.Parallel()
	requests, next := 400, uint64(usualSeeds)
	if os.Getenv("STRATA_LONG") != "" {
		requests, next = 50_000, uint64(time.Now().Unix())*1000
	}
	if set := os.Getenv("STRATA_WIRE_REQUESTS"); set != "" {
		var err error
		requests, err = strconv.Atoi(set)
		require.NoError(t, err)
	}
	one := os.Getenv("STRATA_WIRE_SEED")
	if one != "" {
		var err error
		next, err = strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
	}
	ran := 0
	seen := newTally()
	found, versions := differentialFindings(t, seen, func() (uint64, bool) {
		if one != "" && ran > 0 || seen.total() >= requests {
			return 0, false
		}
		ran++
		next++
		return next - 1, true
	}, 4)
	t.Logf("%d requests of %d scripts up to seed %d", seen.total(), ran, next)
	seen.report(t, versions)
	bySign := map[string][]*finding{}
	for _, f := range found {
		bySign[f.sign()] = append(bySign[f.sign()], f)
	}
	for _, sign := range slices.Sorted(maps.Keys(bySign)) {
		fs := bySign[sign]
		t.Errorf("%d times %s\n%s\n%s", len(fs), sign, fs[0], "again: STRATA_WIRE_SEED="+fmt.Sprint(fs[0].seed))
	}
}

// kafkaSaid is the end of what a broker of Kafka's has logged.
func kafkaSaid(k target) string {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(k.dir), "out"))
	return tail(b)
}

func startKafkaWith(t *testing.T, settings ...string) target {
	t.Helper()
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b, err := kit.StartAt(ctx, t.TempDir(), nil, settings...)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return target{kind: "kafka", addr: b.Addr, dir: b.Dir}
}

// startStrataAuthorizing starts a Strata with the settings of startKafkaWith's broker.
func startStrataAuthorizing(t *testing.T) target {
	t.Helper()
	ks, _ := startStrataServing(t, 1, func(cfg *strata.Config) {
		cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = 4, 1
	}, func(cfg *kafka.Config) {
		cfg.NoAutoCreate = true
		cfg.Authorization = kafka.Authorization{Enabled: true, SuperUsers: []string{"User:ANONYMOUS"}}
	})
	return ks[0]
}

// warm has a broker make its internal topics.
func warm(t *testing.T, k target) {
	awaitCoordinators(t, k)
	c := &wireClient{addr: k.addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("warm"))}
	require.NoError(t, c.dial())
	defer func() { c.nc.Close() }()
	eventually(t, "transactions are coordinated", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorType, find.CoordinatorKey = 3, 1, "warm"
		got, err := c.ask(find)
		if err != nil || got.(*kmsg.FindCoordinatorResponse).ErrorCode != 0 {
			return false
		}
		init := kmsg.NewPtrInitProducerIDRequest()
		init.Version, init.TransactionalID, init.TransactionTimeoutMillis = 4, ptr("warm"), 10_000
		got, err = c.ask(init)
		return err == nil && got.(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
	name, member := "warm", "AAAAAAAAAAAAAAAAAAAAAA"
	_, err := admin(t, k).CreateTopic(within(t), 1, 1, nil, name)
	require.NoError(t, err)
	eventually(t, "share groups are coordinated", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorType, find.CoordinatorKeys = 6, 2, []string{"warm:AAAAAAAAAAAAAAAAAAAAAQ:0"}
		got, err := c.ask(find)
		if err != nil || got.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode != 0 {
			return false
		}
		beat := kmsg.NewPtrShareGroupHeartbeatRequest()
		beat.Version, beat.GroupID, beat.MemberID, beat.SubscribedTopicNames = 1, "warm-shares", member, []string{name}
		got, err = c.ask(beat)
		return err == nil && got.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode == 0
	})
}
