package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
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
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/kafka"
)

// Seeded random requests, valid and not, go to Apache Kafka and to Strata, and the answers must be
// the same. A script is some dozen requests about names of its own. Each can be run again by its
// seed.
//
//	STRATA_WIRE_SEED=SEED go test -run TestRandomAnswersAreKafkas       one script
//	STRATA_LONG=1 go test -run TestRandomAnswersAreKafkas -timeout 2h    50,000 requests
//	STRATA_WIRE_REQUESTS=N STRATA_WIRE_FROM=SEED                         as many, of other seeds

const stepsOfAScript = 50

// errKafkaHangs means that Kafka did not answer a request that Strata answered.
var errKafkaHangs = errors.New("no answer from Kafka")

// A referee sends scripts to both brokers.
type referee struct {
	clients
	// May do everything; the same clients unless the script runs as another user.
	super    clients
	user     string             // the clients' user; "": anonymous
	versions map[int16][2]int16 // of each API, served by both
	trace    []string           // requests and answers of the last run
	fence    string
	fenced   int
}

// clients are of one principal, at both brokers.
type clients struct{ theirs, ours *wireClient }

// newClients returns clients at two addresses, authenticated as user unless it is "".
func newClients(t *testing.T, theirs, ours, user string) clients {
	client := func(addr string) *wireClient {
		c := &wireClient{addr: addr, user: user, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))}
		require.NoError(t, c.dial())
		t.Cleanup(func() { c.nc.Close() })
		return c
	}
	return clients{client(theirs), client(ours)}
}

// again connects again: sessions and groups' members belong to connections.
func (c clients) again() error {
	for _, c := range []*wireClient{c.theirs, c.ours} {
		c.nc.Close()
		if err := c.dial(); err != nil {
			return err
		}
	}
	return nil
}

func newReferee(t *testing.T, p pair, name, user string) *referee {
	r := &referee{fence: name, user: user, versions: map[int16][2]int16{}}
	r.super = newClients(t, p.kafkas.addr, p.ours.addr, "")
	r.clients = r.super
	if user != "" {
		r.clients = newClients(t, p.kafkasSASL, p.oursSASL, user)
	}
	mine := advertised(t, r.ours)
	for key, v := range advertised(t, r.theirs) {
		if _, both := mine[key]; !both {
			require.NotEmpty(t, notServed[key], kmsg.NameForKey(key))
			continue
		}
		r.versions[key] = [2]int16{max(v[0], mine[key][0]), min(v[1], mine[key][1])}
	}
	// Kafka also advertises older versions because of a bug of a client, and serves none of them.
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

// both sends a request to both brokers and returns the answers. If hangs is set, Kafka may not
// answer; then both returns Strata's answer with errKafkaHangs.
func (r clients) both(theirs, ours kmsg.Request, hangs bool) (a, b kmsg.Response, err error) {
	if err := errors.Join(r.theirs.send(theirs), r.ours.send(ours)); err != nil {
		return nil, nil, err
	}
	unanswered := false
	if p, ok := theirs.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		unanswered = true
		// The request has no answer, but the next one has, unless the connection is closed.
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
		// Only whether both connections are still open counts.
		a, b = kmsg.NewPtrProduceResponse(), kmsg.NewPtrProduceResponse()
	}
	return a, b, err
}

// settle waits until Kafka's broker has applied all decisions of its controller. It changes an
// access control entry and waits for it: the broker applies changes in order.
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
	if _, err := r.super.theirs.ask(change); err != nil {
		return err
	}
	return until(func() (bool, error) {
		got, err := r.super.theirs.ask(filter)
		if err != nil || got == nil {
			return false, err
		}
		return len(got.(*kmsg.DescribeACLsResponse).Resources) == r.fenced%2, nil
	})
}

// ended waits until the transaction of an id is no longer being ended.
func (r *referee) ended(transactionalID string) error {
	for _, c := range []*wireClient{r.super.theirs, r.super.ours} {
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

// changes has the APIs that Kafka's controller serves; its broker applies the result later.
var changes = map[int16]bool{19: true, 20: true, 37: true, 33: true, 44: true, 45: true, 43: true, 30: true, 31: true, 49: true, 51: true, 57: true}

// A finding is a step whose answers differ.
type finding struct {
	seed         uint64
	step         int
	req          kmsg.Request
	theirs, ours kmsg.Response
	diffs        []difference
	how          string // the user, or the change of the request's bytes; "" if neither
	said         string // the answers, if they are bytes
}

func (f *finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, step %d: %s v%d %s%s\n", f.seed, f.step, kmsg.NameForKey(f.req.Key()), f.req.GetVersion(), f.how, jsonOf(f.req))
	for _, d := range f.diffs {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	if f.said != "" {
		return b.String() + "  " + f.said
	}
	fmt.Fprintf(&b, "  Kafka:  %s\n  Strata: %s", jsonOf(f.theirs), jsonOf(f.ours))
	return b.String()
}

// sign returns a text that findings of one cause share.
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
	if err != nil { // a quota that is not a number
		return fmt.Sprintf("%+v", v)
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

// An attempt is one run of a script.
type attempt struct {
	seed   uint64
	prefix string        // of all names
	pause  time.Duration // after each request
	only   map[int]bool  // the steps to run; nil: all
	seen   *tally
}

// leftOut reports whether a step is not run. Steps of the opening always run.
func (a attempt) leftOut(step, opening int) bool {
	return step >= opening && a.only != nil && !a.only[step]
}

// A script is a running attempt.
type script struct {
	*referee
	attempt
	m       *model
	ids     *correspondence
	theme   []int16
	opening []func(*model) kmsg.Request
	plain   func(string) string
	found   []*finding
}

// begin starts a script with new connections, so that earlier scripts have no effect.
func (r *referee) begin(a attempt) (*script, error) {
	m := newModel(a.prefix)
	x := &script{referee: r, attempt: a, m: m, ids: newCorrespondence(), opening: opening, plain: strings.NewReplacer(a.prefix, "P").Replace}
	x.theme = themes[newGen(a.seed, -1, m).rng.IntN(len(themes))]
	if a.seed%streamsSeeds == 0 {
		x.theme, m.streaming = streamsTheme, true
	}
	r.trace = nil
	return x, errors.Join(r.again(), r.super.again())
}

// run runs a script, up to the first finding after which the brokers may have different states.
// Differences in texts do not end it.
func (r *referee) run(a attempt) ([]*finding, error) {
	x, err := r.begin(a)
	if err != nil {
		return nil, err
	}
	if r.user != "" {
		x.opening = append(slices.Clone(opening), x.openingOfFew()...)
	}
	for step := range stepsOfAScript {
		if a.leftOut(step, len(x.opening)) {
			continue
		}
		req, by := x.next(step)
		if req == nil {
			continue
		}
		goesOn, err := x.step(step, req, by)
		if err != nil {
			err = fmt.Errorf("seed %d, step %d: %s v%d %s: %w", a.seed, step, kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req), err)
		}
		if err != nil || !goesOn {
			return x.found, errors.Join(err, r.sweep(x.m))
		}
		time.Sleep(a.pause)
	}
	return x.found, r.sweep(x.m)
}

// next returns a step's request, nil if it has none, and the clients that send it.
func (x *script) next(step int) (kmsg.Request, clients) {
	if step < len(x.opening) {
		return x.opening[step](x.m), x.super
	}
	g := newGen(x.seed, step, x.m)
	if x.user != "" && g.one(12) {
		return x.grants(g), x.super
	}
	by := x.clients
	if x.user != "" && g.one(4) {
		by = x.super
	}
	key := pick(g, x.theme...)
	if g.one(5) {
		key = pick(g, themes[len(themes)-1]...)
	}
	v, advertised := x.versions[key]
	if !advertised {
		return nil, by
	}
	return g.request(key, v[0]+int16(g.rng.IntN(int(v[1]-v[0])+1))), by
}

// step sends a request to both and compares the answers. It reports whether the script can
// continue.
func (x *script) step(step int, req kmsg.Request, by clients) (goesOn bool, err error) {
	asked := x.plain(jsonOf(req))
	theirs, ours, err := by.both(req, translate(req, x.ids), find(req, asked, difference{theirs: "hangs"}) != nil)
	hangs := errors.Is(err, errKafkaHangs)
	if err != nil && !hangs {
		return false, err
	}
	x.seen.note(req, theirs)
	w := viewOf(x.prefix, req)
	diffs := x.ids.compare(w, theirs, ours)
	if hangs {
		diffs = []difference{{"", "", "hangs", plainly(w.tree("", reflect.ValueOf(ours)))}}
	}
	if by != x.super {
		diffs = append(diffs, leaks(asked, x.plain(jsonOf(theirs)), x.plain(jsonOf(ours)))...)
	}
	x.trace = append(x.trace, fmt.Sprintf("%d: %s %s\n      %s", step, kmsg.NameForKey(req.Key()), asked, x.plain(jsonOf(theirs))))
	unlisted := x.seen.unlisted(req, asked, x.plain, diffs)
	if len(unlisted) > 0 {
		how := ""
		if by != x.super {
			how = "as " + x.user + " "
		}
		x.found = append(x.found, &finding{seed: x.seed, step: step, req: req, theirs: theirs, ours: ours, diffs: unlisted, how: how})
	}
	if hangs || slices.ContainsFunc(unlisted, ofStates) || !readOnly[req.Key()] && slices.ContainsFunc(diffs, ofStates) {
		return false, nil
	}
	if req.Key() == 11 && w.twice {
		// From now on Kafka's group counts the support for a member's protocol twice.
		return false, nil
	}
	if theirs == nil {
		x.m.session, x.m.sessionEpoch, x.m.groups[2].session = 0, 0, 0
		return true, nil
	}
	x.m.learn(req, theirs)
	if beat, ok := theirs.(*kmsg.StreamsGroupHeartbeatResponse); ok {
		return true, x.internalTopics(beat, x.m)
	}
	return true, x.rest(req)
}

// ofStates reports whether the brokers may have different states after a difference.
func ofStates(d difference) bool {
	return !strings.HasSuffix(d.path, ".ErrorMessage") && !strings.Contains(d.path, ".Configs[")
}

// rest waits until both brokers have completed the request's work in the background.
func (r *referee) rest(req kmsg.Request) (err error) {
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
	return err
}

// sweep deletes the topics and the access control entries of a script. Thousands of topics slow
// brokers down.
func (r *referee) sweep(m *model) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	for _, t := range append(slices.Clone(m.topics), &topicModel{name: m.name(hidden)}, &topicModel{name: m.name(changelog)}, &topicModel{name: m.name(repartition)}) {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = &t.name
		req.Topics = append(req.Topics, rt)
	}
	_, theirs := r.super.theirs.ask(req)
	_, ours := r.super.ours.ask(req)
	if r.user == "" {
		return errors.Join(theirs, ours)
	}
	return errors.Join(theirs, ours, r.revoke())
}

// readOnly are APIs that change nothing.
var readOnly = map[int16]bool{2: true, 3: true, 9: true, 10: true, 15: true, 16: true, 18: true, 23: true, 29: true, 32: true, 35: true, 41: true, 46: true, 48: true, 50: true, 55: true, 60: true, 61: true, 65: true, 66: true, 69: true, 74: true, 75: true, 77: true, 89: true, 90: true}

// opening has the first steps of every script: two topics, one of them with records.
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

// A campaign runs scripts against both brokers.
type campaign struct {
	pair    pair
	seen    *tally
	users   []string // the user of each worker; "": anonymous
	run     func(*referee, attempt) ([]*finding, error)
	found   []*finding
	refused error // error that ended the campaign

	versions map[int16][2]int16
}

// newCampaign returns a campaign of four workers.
func newCampaign(t *testing.T) *campaign {
	c := &campaign{pair: startPair(t), seen: newTally(), users: make([]string, 4), run: (*referee).run}
	for _, k := range []target{c.pair.kafkas, c.pair.ours} {
		warm(t, k)
	}
	return c
}

// scripts runs scripts in parallel, and keeps the differences that recur in a second run.
func (c *campaign) scripts(t *testing.T, seeds func() (uint64, bool)) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, user := range c.users {
		r := newReferee(t, c.pair, fmt.Sprint("fence", i), user)
		c.versions = r.versions
		wg.Go(func() {
			for {
				mu.Lock()
				seed, more := seeds()
				more = more && c.refused == nil
				mu.Unlock()
				if !more {
					return
				}
				found, err := c.script(t, r, seed)
				mu.Lock()
				if err != nil {
					c.refused = err
					t.Errorf("%v\n%s", err, kafkaSaid(c.pair.kafkas))
				}
				c.found = append(c.found, found...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// script runs one script. Kafka's broker does some things a moment later, so a difference is a
// finding only if it recurs with time between the requests.
func (c *campaign) script(t *testing.T, r *referee, seed uint64) (found []*finding, err error) {
	found, err = c.run(r, attempt{seed: seed, prefix: fmt.Sprintf("a%x", seed), seen: c.seen})
	// For example, some requests make Kafka's controller resign; it is unavailable for a moment.
	if err != nil {
		t.Logf("once more: %v", err)
		found, err = c.run(r, attempt{seed: seed, prefix: fmt.Sprintf("e%x", seed), seen: c.seen})
	}
	if len(found) == 0 {
		return nil, err
	}
	again := func(try string, only map[int]bool) []*finding {
		fs, err2 := c.run(r, attempt{seed, fmt.Sprintf("%s%x", try, seed), 20 * time.Millisecond, only, newTally()})
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
	return found, err
}

// in returns the finding of another run that matches f; nil if there is none.
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

// usualSeeds is the first seed of the usual scripts. It stays the same, so that a new difference
// comes from a change of the code.
const usualSeeds = 30_000

// howMany returns the number of requests that a test sends, and its first seed. In the usual form
// STRATA_SAMPLE chooses a run of scripts among the first known ones, which have no unlisted
// differences.
func howMany(t *testing.T, usual, long int, known uint64) (requests int, next uint64) {
	requests, next = usual, usualSeeds
	if os.Getenv("STRATA_LONG") != "" {
		requests = long
	} else {
		next += sample.Seed(t) % known
	}
	for name, set := range map[string]func(uint64){
		"STRATA_WIRE_REQUESTS": func(n uint64) { requests = int(n) },
		"STRATA_WIRE_FROM":     func(n uint64) { next = n },
		"STRATA_WIRE_SEED":     func(n uint64) { requests, next = 1, n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
			set(n)
		}
	}
	return requests, next
}

// send runs scripts of new seeds until the given number of requests was sent, and reports the
// findings.
func (c *campaign) send(t *testing.T, requests int, first uint64) {
	next := first
	c.scripts(t, func() (uint64, bool) {
		if c.seen.total() >= requests {
			return 0, false
		}
		next++
		return next - 1, true
	})
	t.Logf("%d requests of %d scripts, seeds %d to %d", c.seen.total(), next-first, first, next-1)
	bySign := map[string][]*finding{}
	for _, f := range c.found {
		bySign[f.sign()] = append(bySign[f.sign()], f)
	}
	t.Logf("%d differences are listed, of %d causes; %d are not", c.seen.listed(), len(c.seen.times), len(c.found))
	for _, sign := range slices.Sorted(maps.Keys(bySign)) {
		fs := bySign[sign]
		t.Errorf("%d times %s\n%s\n%s", len(fs), sign, fs[0], "again: STRATA_WIRE_SEED="+fmt.Sprint(fs[0].seed))
	}
}

// TestRandomAnswersAreKafkas sends some hundred requests; with STRATA_LONG 50,000, of every API in
// every version. Known differences are in differential.txt.
func TestRandomAnswersAreKafkas(t *testing.T) {
	t.Parallel()
	requests, next := howMany(t, 400, 50_000, 2600)
	c := newCampaign(t)
	c.send(t, requests, next)
	c.seen.report(t, c.versions)
	if requests >= 50_000 {
		require.Empty(t, c.seen.unasked(c.versions), "every API is asked in every version")
	}
}

// kafkaSaid returns the end of the log of one of Kafka's brokers.
func kafkaSaid(k target) string {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(k.dir), "out"))
	return tail(b)
}

func startKafkaWith(t *testing.T, settings ...string) target {
	t.Helper()
	return startKafkaAt(t, nil, settings...)
}

// startKafkaAt is startKafkaWith for a broker with features as those of startKafka.
func startKafkaAt(t *testing.T, features []string, settings ...string) target {
	t.Helper()
	b, err := kafkaKit(t).StartAt(within(t), t.TempDir(), features, settings...)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return target{kind: "kafka", addr: b.Addr, dir: b.Dir}
}

// startStrataAuthorizing starts a Strata in which anonymous clients may do everything. Other users
// need access control entries.
func startStrataAuthorizing(t *testing.T) target {
	t.Helper()
	ks, _ := startStrataServing(t, 1, func(cfg *strata.Config) {
		cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = 4, 1
	}, func(cfg *kafka.Config) {
		cfg.NoAutoCreate, cfg.PartialBatches = true, true
		cfg.Authorization = kafka.Authorization{Enabled: true, SuperUsers: []string{"User:ANONYMOUS"}}
	})
	return ks[0]
}

// warm has a broker create its internal topics.
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
