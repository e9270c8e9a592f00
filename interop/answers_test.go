package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// These tests send handwritten requests, most of them invalid in some way, to Strata and to Apache
// Kafka. The answers must be the same.

// deviations maps steps whose answers differ, in all versions or in the named one, to the reason.
// All other answers must be equal except for texts, order, ids and addresses.
var deviations = map[string]string{
	"a coordinator of transactions":              "the topic is made while the client waits; Kafka sends it round meanwhile (COORDINATOR_NOT_AVAILABLE)",
	"a group whose offsets are all deleted":      "Kafka remembers a group without offsets or members until it next looks for expired ones, if it is not restarted before",
	"deleting a group whose offsets are deleted": "as above",
	"create: only validated":                     "flush.messages is 1: what is acknowledged is on the disk",
	"grow: t, too many":                          "POLICY_VIOLATION, as for topics to be created; Kafka has UNKNOWN_SERVER_ERROR for the same",
	"produce: base offset":                       "the same error; Kafka adds where the log starts",
	"produce: no key":                            "as above",
	"share beat: unchanged":                      "a member has its partitions in its first answer, and the group an epoch less",
	"share beat: 36 characters":                  "as above",
	"share describe: one":                        "as above",
	"share describe: without members":            "as above",
	"share describe: made":                       "Kafka counts an assignment though there are no members",
	"share fetch: empty group":                   "INVALID_REQUEST, as for none; Kafka looks for its share-partitions and fails",
	"share fetch: mode -1":                       "INVALID_REQUEST, for which Kafka has UNKNOWN_SERVER_ERROR",
	"share fetch: mode 2":                        "as above",
	"share fetch: unknown topic":                 "UNKNOWN_TOPIC_ID for that topic; Kafka has UNKNOWN_SERVER_ERROR for all that is asked",
	"share ack: negative":                        "INVALID_REQUEST for that partition; Kafka has UNKNOWN_SERVER_ERROR for all that is asked",
	"share ack: beyond the end":                  "INVALID_RECORD_STATE, as for what else the member does not have; INVALID_REQUEST in Kafka",
	"share ack: overlap":                         "refused as a whole (INVALID_REQUEST); Kafka looks at one range after the other",
	"share offsets: no group":                    "an empty group id is refused; Kafka has no partitions for it",
	"share offsets: alter, negative":             "INVALID_REQUEST; Kafka takes it",
	"share offsets: beyond the end":              "a lag that is not known is -1; Kafka's is below that",
	"txn1-a coordinator of no id":                "an empty id is refused at once, where Kafka refuses the next request",
	"txn2-a coordinator of no id":                "an empty id is refused at once, where Kafka refuses the next request",
	"commit: classic, epoch 1":                   "a classic member commits in its own generation only; Kafka accepts earlier ones in a group of the newer protocol",
	"offsets of an unknown group (v10)":          "names that a request repeats are answered once: both topics have the id zero",
	"txn1-about: described":                      "names that a request repeats are answered once",
	"txn2-about: described":                      "names that a request repeats are answered once",
	"txn1-update: only validated, to 2 by 1":     "the level is set when a cluster is opened",
	"txn1-update: only validated, to 0 by 2":     "the level is set when a cluster is opened",
	"txn1-update: only validated, to 0 by 3":     "the level is set when a cluster is opened",
	"txn2-update: only validated, to 0 by 2":     "the level is set when a cluster is opened",
	"txn2-update: only validated, to 1 by 2":     "the level is set when a cluster is opened",
	"txn2-update: only validated, to 0 by 3":     "the level is set when a cluster is opened",
	"txn2-update: only validated, to 1 by 3":     "the level is set when a cluster is opened",
}

// A transcript has a broker's answers, step by step.
type transcript struct {
	t     *testing.T
	k     target
	nc    net.Conn
	form  *kmsg.RequestFormatter
	next  int32
	names []string
	said  map[string]string
	hide  *strings.Replacer // ids and addresses of this broker
}

func newTranscript(t *testing.T, k target) *transcript {
	host, port, err := net.SplitHostPort(k.addr)
	require.NoError(t, err)
	x := &transcript{t: t, k: k, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe")), said: map[string]string{},
		hide: strings.NewReplacer(`"`+host+`"`, `"HOST"`, ":"+port, ":PORT")}
	x.dial()
	return x
}

func (x *transcript) dial() {
	nc, err := (&net.Dialer{}).DialContext(within(x.t), "tcp", x.k.addr)
	require.NoError(x.t, err)
	x.nc = nc
	x.t.Cleanup(func() { nc.Close() })
}

// ask sends a request in one version and records the answer, or that the broker closed the
// connection instead.
func (x *transcript) ask(name string, version int16, req kmsg.Request) kmsg.Response {
	name = fmt.Sprintf("%s (v%d)", name, version)
	require.NotContains(x.t, x.said, name)
	x.names = append(x.names, name)
	req.SetVersion(version)
	x.next++
	resp, err := x.exchange(req)
	if err != nil {
		x.said[name] = "closed"
		x.dial()
		return nil
	}
	x.said[name] = x.plain(resp)
	return resp
}

func (x *transcript) exchange(req kmsg.Request) (kmsg.Response, error) {
	x.nc.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := x.nc.Write(x.form.AppendRequest(nil, req, x.next)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(x.nc, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(x.nc, frame); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	require.NoError(x.t, resp.ReadFrom(body))
	return resp, nil
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shortUUIDPattern matches a value that may be a UUID in base64.
var shortUUIDPattern = regexp.MustCompile(`(:\\*")[A-Za-z0-9_-]{22}(\\*")`)

// plain returns an answer as comparable text: lists are sorted; texts, tags, throttling and the
// broker's own ids and addresses are left out.
func (x *transcript) plain(resp kmsg.Response) string {
	b, err := json.Marshal(resp)
	require.NoError(x.t, err)
	var v any
	require.NoError(x.t, json.Unmarshal(b, &v))
	b, err = json.Marshal(simplify(v))
	require.NoError(x.t, err)
	plain := uuidPattern.ReplaceAllString(x.hide.Replace(string(b)), "UUID")
	return shortUUIDPattern.ReplaceAllString(plain, `${1}UUID$2`)
}

func simplify(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch key {
			case "UnknownTags", "ThrottleMillis", "ErrorMessage", "Port", "ClusterID", "ProducerID", "LogAppendTime":
				delete(v, key)
			case "StartTimestamp", "LastTimestamp":
				if value.(float64) > 0 {
					v[key] = "some"
				}
			case "SessionID":
				if v[key] = "none"; value != float64(0) {
					v[key] = "some"
				}
			case "TopicID":
				v[key] = "zero"
				if !strings.HasPrefix(fmt.Sprint(value), "[0 0 0 0 0 0 0 0") {
					v[key] = "id"
				}
			default:
				v[key] = simplify(value)
			}
		}
		return v
	case []any:
		text := make([]string, len(v))
		for i := range v {
			b, _ := json.Marshal(simplify(v[i]))
			text[i] = string(b)
		}
		slices.Sort(text)
		if len(text) == 0 {
			return nil // an empty list and null are the same to clients
		}
		return text
	}
	return v
}

// until sends a request, without recording the answer, until good accepts it: topics are created,
// markers written and coordinators loaded in the background.
func (x *transcript) until(version int16, req kmsg.Request, good func(kmsg.Response) bool) kmsg.Response {
	x.t.Helper()
	req.SetVersion(version)
	var resp kmsg.Response
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		x.next++
		var err error
		resp, err = x.exchange(req)
		require.NoError(x.t, err)
		if good(resp) {
			return resp
		}
	}
	x.t.Fatalf("%s: %T is still answered %s", x.k.kind, req, x.plain(resp))
	return nil
}

// deletesNothing keeps a broker from deleting old records, which it otherwise does half a minute
// after its start.
const deletesNothing = "log.initial.task.delay.ms=3600000"

func TestAnswersAreKafkas(t *testing.T) {
	t.Parallel()
	kafkas := startKafkaWith(t, deletesNothing)
	ours, _ := startStrata(t)
	versions, err := admin(t, ours).ApiVersions(within(t))
	require.NoError(t, err)
	servesConfigs := false
	for _, v := range versions {
		_, servesConfigs = v.KeyMaxVersion(32)
	}
	run := func(k target) *transcript {
		x := newTranscript(t, k)
		seedAnswers(t, k)
		askTopics(x)
		askRecords(x)
		askGone(x)
		askGroups(x)
		if servesConfigs {
			askConfigs(x)
		}
		return x
	}
	sameAnswers(t, run(kafkas), run(ours))
}

// TestAnswersAboutTransactionsAreKafkas runs the script at each level of transaction.version. New
// clusters have level 2.
func TestAnswersAboutTransactionsAreKafkas(t *testing.T) {
	t.Parallel()
	for _, level := range []int16{1, 2} {
		t.Run(itoa(int(level)), func(t *testing.T) {
			t.Parallel()
			run := func(k target) *transcript {
				x := newTranscript(t, k)
				awaitCoordinators(t, k)
				askTransactions(x, level)
				return x
			}
			theirs := run(startKafkaAt(t, []string{fmt.Sprint("transaction.version=", level)}, deletesNothing))
			sameAnswers(t, theirs, run(startStrataAt(t, level)))
		})
	}
}

// sameAnswers fails the test if two brokers answered differently.
func sameAnswers(t *testing.T, theirs, mine *transcript) {
	require.Equal(t, theirs.names, mine.names)
	for _, name := range theirs.names {
		step, _, _ := strings.Cut(name, " (v")
		if deviations[step] != "" || deviations[name] != "" {
			continue
		}
		if theirs.said[name] != mine.said[name] {
			t.Errorf("%s\nKafka:  %s\nStrata: %s", name, theirs.said[name], mine.said[name])
		}
	}
}

// seedAnswers creates the topic "t" with ten records in partition 0, the topic "compacted", and
// the offsets topic.
func seedAnswers(t *testing.T, k target) {
	createNamed(t, k, "t", 2)
	createNamed(t, k, "compacted", 1, "cleanup.policy=compact")
	p := franz(t, k, kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 10 {
		require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Value: value(i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}).FirstErr())
	}
	awaitCoordinators(t, k)
}
