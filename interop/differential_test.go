package interop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
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
//	STRATA_LONG=1 STRATA_WIRE_REQUESTS=50000 go test -run TestRandomAnswersAreKafkas -timeout 2h

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
	versions     map[int16][2]int16 // that Kafka advertises
	fence        string
	fenced       int
}

func newReferee(t *testing.T, kafkas, ours target, name string) *referee {
	r := &referee{fence: name, versions: map[int16][2]int16{}}
	client := func(k target) *wireClient {
		c := &wireClient{addr: k.addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe"))}
		require.NoError(t, c.dial())
		t.Cleanup(func() { c.nc.Close() })
		return c
	}
	r.theirs, r.ours = client(kafkas), client(ours)
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "probe", "1"
	got, err := r.theirs.ask(req)
	require.NoError(t, err)
	for _, k := range got.(*kmsg.ApiVersionsResponse).ApiKeys {
		if notServed[k.ApiKey] != "" {
			continue
		}
		r.versions[k.ApiKey] = [2]int16{k.MinVersion, min(k.MaxVersion, kmsg.RequestForKey(k.ApiKey).MaxVersion())}
	}
	return r
}

// both sends a request to both and returns the answers.
func (r *referee) both(theirs, ours kmsg.Request) (a, b kmsg.Response, err error) {
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
	a, err = r.theirs.receive(theirs)
	if errors.Is(err, errNoAnswer) {
		err = errKafkaHangs
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
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
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
	return fmt.Sprintf("%s%s: %.90s | %.90s", kmsg.NameForKey(f.req.Key()), d.path, d.theirs, d.ours)
}

func jsonOf(v any) string {
	if v == nil || reflect.ValueOf(v).IsNil() {
		return "closed"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}

// run runs a script, up to the first finding after which the brokers may have different states: that
// is, any but of texts. only are the steps to run, nil: all. It returns how many requests were sent.
func (r *referee) run(seed uint64, prefix string, pause time.Duration, only map[int]bool, note func(string)) (found []*finding, sent int, err error) {
	// Sessions and groups' members belong to connections.
	for _, c := range []*wireClient{r.theirs, r.ours} {
		c.nc.Close()
		if err := c.dial(); err != nil {
			return nil, 0, err
		}
	}
	m, ids := newModel(prefix), newCorrespondence()
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
			if key == 0 && req.GetVersion() < 3 {
				req.SetVersion(3) // Kafka advertises older ones for the sake of a client's bug, and serves none
			}
		}
		theirs, ours, err := r.both(req, translate(req, ids))
		if errors.Is(err, errKafkaHangs) {
			note(kmsg.NameForKey(req.Key()) + ": Kafka does not answer, which is worse than any answer")
			return found, sent, nil
		}
		if err != nil {
			return found, sent, fmt.Errorf("seed %d, step %d: %s v%d %s: %w", seed, step, kmsg.NameForKey(req.Key()), req.GetVersion(), jsonOf(req), err)
		}
		sent++
		diffs := ids.compare(view{prefix, jsonOf(req)}, theirs, ours)
		apart := slices.ContainsFunc(diffs, func(d difference) bool {
			return !strings.HasSuffix(d.path, ".ErrorMessage") && !strings.Contains(d.path, ".Configs[")
		})
		diffs = slices.DeleteFunc(diffs, func(d difference) bool { return listed(req, d, note) })
		if len(diffs) > 0 {
			found = append(found, &finding{seed, step, req, theirs, ours, diffs})
		}
		if apart {
			return found, sent, nil
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
			return found, sent, fmt.Errorf("seed %d, step %d: %s: %w", seed, step, jsonOf(req), err)
		}
		time.Sleep(pause)
	}
	return found, sent, nil
}

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

// findings runs scripts in parallel until there were requests of them, and returns what differs in
// two runs of the same script.
func differentialFindings(t *testing.T, seeds func() (uint64, bool), workers int) (all []*finding, sent int) {
	kafkas := startKafkaWith(t, "auto.create.topics.enable=false", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS")
	ours := startStrataAuthorizing(t)
	for _, k := range []target{kafkas, ours} {
		warm(t, k)
	}
	var mu sync.Mutex
	notes := map[string]int{}
	note := func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		notes[reason]++
	}
	var wg sync.WaitGroup
	for i := range workers {
		r := newReferee(t, kafkas, ours, fmt.Sprint("fence", i))
		wg.Go(func() {
			for {
				mu.Lock()
				seed, more := seeds()
				mu.Unlock()
				if !more {
					return
				}
				found, n, err := r.run(seed, fmt.Sprintf("a%x", seed), 0, nil, note)
				if len(found) > 0 {
					// Kafka's broker does some things a moment later: only what is seen again, with time
					// between the requests, is a finding.
					again := func(try string, only map[int]bool) []*finding {
						fs, _, err2 := r.run(seed, fmt.Sprintf("%s%x", try, seed), 20*time.Millisecond, only, note)
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
						}
					}
				}
				mu.Lock()
				sent += n
				if err != nil {
					t.Errorf("%v", err)
					seeds = func() (uint64, bool) { return 0, false }
				}
				all = append(all, found...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, reason := range slices.Sorted(maps.Keys(notes)) {
		t.Logf("listed, %d times: %s", notes[reason], reason)
	}
	return all, sent
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
	f.diffs = append(f.diffs, difference{"needed are the steps", fmt.Sprint(slices.Sorted(maps.Keys(keep))), ""})
	return f
}

// usualSeeds are those of the scripts that are always run. They stay the same, so that what they
// say of a change is about the change; the long form looks for what is new.
const usualSeeds = 30_000

// TestRandomAnswersAreKafkas runs some hundred requests, and with STRATA_LONG 50,000. Differences
// that are known are in wireDeviations and differential.txt.
func TestRandomAnswersAreKafkas(t *testing.T) {
	requests, next := 400, uint64(usualSeeds)
	if os.Getenv("STRATA_LONG") != "" {
		requests, next = 50_000, uint64(time.Now().Unix())*1000
	}
	if set := os.Getenv("STRATA_WIRE_REQUESTS"); set != "" {
		var err error
		requests, err = strconv.Atoi(set)
		require.NoError(t, err)
	}
	scripts := requests / stepsOfAScript * 4 // many end early: see run
	if set := os.Getenv("STRATA_WIRE_SEED"); set != "" {
		var err error
		next, err = strconv.ParseUint(set, 10, 64)
		require.NoError(t, err)
		scripts = 1
	}
	found, sent := differentialFindings(t, func() (uint64, bool) {
		scripts--
		next++
		return next - 1, scripts >= 0
	}, 4)
	t.Logf("%d requests of scripts up to seed %d", sent, next)
	if os.Getenv("STRATA_WIRE_SEED") == "" {
		require.Greater(t, sent, requests/4)
	}
	bySign := map[string][]*finding{}
	for _, f := range found {
		bySign[f.sign()] = append(bySign[f.sign()], f)
	}
	for _, sign := range slices.Sorted(maps.Keys(bySign)) {
		fs := bySign[sign]
		t.Errorf("%d times %s\n%s\n%s", len(fs), sign, fs[0], "again: STRATA_WIRE_SEED="+fmt.Sprint(fs[0].seed))
	}
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
