package kafkatest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// A failedT is a test that has failed, with a directory for its files.
type failedT struct {
	fakeT
	dir string
}

func (f *failedT) Failed() bool        { return true }
func (f *failedT) Name() string        { return "TestOrders/three brokers" }
func (f *failedT) ArtifactDir() string { return f.dir }

// timelineOf returns the lines that a failed test logs at its end.
func timelineOf(t *testing.T, f *failedT) (lines []string) {
	t.Helper()
	for _, line := range f.log {
		if strings.HasPrefix(line, "kafkatest: what happened") {
			require.Empty(t, lines, "it is logged once")
			lines = strings.Split(strings.TrimSpace(line), "\n")
		}
	}
	return lines
}

// troubled produces with a client of whose requests two fail, and kills a broker.
func troubled(t *testing.T, s *Server) {
	s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Topic: "orders", Code: kafka.NotLeaderOrFollower, Times: 2})
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ClientID("shop"), kgo.DefaultProduceTopic("orders"), kgo.MetadataMinAge(10*time.Millisecond))
	require.NoError(t, err)
	defer cl.Close()
	for range 5 {
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("paid")).FirstErr())
	}
	s.KillBroker(2)
}

func TestFailedTestShowsWhatHappened(t *testing.T) {
	cfg := Config{Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}}
	piped := cfg
	piped.Pipe = true
	for name, run := range map[string]func(t *testing.T, f *failedT){
		"over TCP": func(t *testing.T, f *failedT) { f.run(func() { troubled(t, New(f, cfg)) }) },
		"in memory, in a bubble": func(t *testing.T, f *failedT) {
			synctest.Test(t, func(t *testing.T) { f.run(func() { troubled(t, New(f, piped)) }) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			files.Store(0)
			dir := t.TempDir()
			t.Setenv(artifacts, filepath.Join(dir, "new"))
			f := &failedT{}
			run(t, f)
			require.Empty(t, f.fatal)
			lines := timelineOf(t, f)
			require.LessOrEqual(t, len(lines), maxTimeline)
			text := strings.Join(lines, "\n")
			for _, want := range []string{
				`the test: Fault: Produce of topic orders: NOT_LEADER_OR_FOLLOWER, 2 times`,
				`"shop": Produce topic "orders"-0: NOT_LEADER_OR_FOLLOWER (fault 1) ×2 until +`,
				`the test: KillBroker(2)`,
				`broker 2 killed`,
				`"shop" sent Produce ×`,
			} {
				require.Contains(t, text, want)
			}
			files, err := filepath.Glob(filepath.Join(dir, "new", "TestOrders-three-brokers-*.html"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.Contains(t, lines[0], files[0])
			page, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.Contains(t, string(page), "shop, connection ")
			require.NotContains(t, string(page), "<script")
		})
	}
}

func TestTimelineOfAClockedServerHasTheBrokersTime(t *testing.T) {
	s := New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}})
	s.Fill("orders", record.String("orders", "", "paid"))
	s.Advance(time.Hour)
	s.Fill("orders", record.String("orders", "", "sent"))
	text := s.Timeline()
	require.Regexp(t, `the test: Advance\(1h0m0s\), 1h\n +\+1h0m\S+  the test: Fill\(orders, 1 records\)`, text)
}

func TestTimelineShowsEachRebalanceWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"orders": 2}})
		member := func(id string) *kgo.Client {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ClientID(id), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
			require.NoError(t, err)
			return cl
		}
		first := member("first")
		s.WaitGroup("billing", group.StableWith(1))
		second := member("second")
		s.WaitGroup("billing", group.StableWith(2))
		first.Close()
		s.WaitGroup("billing", group.StableWith(1))
		second.Close()
		synctest.Wait()
		text := s.Timeline()
		require.Regexp(t, `group billing: assigned, generation 1, 1 members, 2 partitions moved, took \S+: first\S* joined`, text)
		require.Regexp(t, `group billing: assigned, generation 2, 2 members, .*second\S* joined`, text)
		require.Regexp(t, `group billing: assigned, generation \d, 1 members, .*first\S* left`, text)
		require.Regexp(t, `group billing: emptied, .*second\S* left`, text)
		var file bytes.Buffer
		require.NoError(t, s.WriteTimeline(&file))
		require.Regexp(t, `group billing</text>(?s:.)*generation 2`, file.String())
	})
}

func TestTestThatPassesLogsAndWritesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(artifacts, dir)
	f := &fakeT{}
	f.run(func() { troubled(t, New(f, Config{Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})) })
	require.Empty(t, f.log)
	failed := &failedT{}
	failed.run(func() { New(failed, Config{NoTimeline: true}) })
	require.Empty(t, failed.log)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Without a directory of the user the text is logged, and there is no file.
func TestFileNeedsADirectory(t *testing.T) {
	files.Store(0)
	t.Setenv(artifacts, "")
	f := &failedT{dir: t.TempDir()}
	f.run(func() { New(f, Config{}) })
	require.NotEmpty(t, timelineOf(t, f))
	entries, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	file := filepath.Join(f.dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv(artifacts, file)
	f = &failedT{}
	f.run(func() { New(f, Config{}) })
	require.Contains(t, timelineOf(t, f)[0], "; no file: mkdir ")
}

// A long history has a short text with the first and the last lines of each kind, and a file of a
// bounded size.
func TestTimelineOfALongTestIsShort(t *testing.T) {
	begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tl := &timeline{test: t.Name(), nameOf: func([16]byte) string { return "" }, began: begin, total: HistorySize}
	for i := range HistorySize {
		at := begin.Add(time.Duration(i) * time.Second)
		heartbeat := kmsg.NewPtrHeartbeatRequest()
		heartbeat.Group = fmt.Sprint("a group with a long name, as they are generated by some deployment tools: ", i)
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = int16(kafka.RebalanceInProgress)
		tl.exchanges = append(tl.exchanges, remembered{Exchange: kafka.Exchange{Broker: 1, Conn: uint64(i), ClientID: fmt.Sprint("client ", i), Key: 12, Received: at, Answered: at.Add(time.Millisecond), Request: heartbeat, Response: resp}})
		if i < maxHappenings {
			tl.calls = append(tl.calls, happening{began: at, ended: at, what: fmt.Sprint("call ", i), kind: fmt.Sprint("call ", i)})
			tl.events = append(tl.events, happening{began: at, ended: at, what: fmt.Sprint("event ", i), kind: fmt.Sprint("event ", i)})
		}
	}
	lines := strings.Split(strings.TrimSpace(tl.text()), "\n")
	require.LessOrEqual(t, len(lines), maxTimeline)
	text := strings.Join(lines, "\n")
	require.Contains(t, text, "the test: call 0")
	require.Contains(t, text, fmt.Sprint("the test: call ", maxHappenings-1))
	require.Contains(t, text, "lines are left out)")
	var file bytes.Buffer
	require.NoError(t, tl.write(&file))
	require.Less(t, file.Len(), 3<<19, "1.5 MiB")
	require.Contains(t, file.String(), "other connections")
}

func TestTimelineEscapesNamesOfClients(t *testing.T) {
	hostile := `"><script>alert(1)</script>` + "\x00\x1b[31m\xff"
	f := &failedT{}
	var file bytes.Buffer
	f.run(func() {
		s := New(f, Config{Pipe: true})
		conn, err := s.Dial(t.Context(), "tcp", s.Addr(1))
		require.NoError(t, err)
		defer conn.Close()
		req := kmsg.NewPtrMetadataRequest()
		_, err = conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(hostile)).AppendRequest(nil, req, 1))
		require.NoError(t, err)
		(&wire{t: t, conn: conn, next: 1}).receive(req)
		require.NoError(t, s.WriteTimeline(&file))
	})
	require.Contains(t, file.String(), "alert(1)")
	require.NotContains(t, file.String(), "<script")
	svg := regexp.MustCompile(`(?s)<svg.*</svg>`).FindString(file.String())
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.NotContains(t, strings.Join(timelineOf(t, f), "\n"), "\x1b")
}

func TestProcessWritesAtMostTwentyFiles(t *testing.T) {
	files.Store(0)
	dir := t.TempDir()
	t.Setenv(artifacts, dir)
	for range maxFiles + 2 {
		f := &failedT{}
		f.run(func() { New(f, Config{Pipe: true}) })
		require.NotEmpty(t, timelineOf(t, f))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, maxFiles)
}

func TestWriteTimelineReturnsTheErrorOfItsWriter(t *testing.T) {
	s := New(t, Config{Pipe: true})
	full := errors.New("disk full")
	require.ErrorIs(t, s.WriteTimeline(badWriter{full}), full)
}

type badWriter struct{ err error }

func (w badWriter) Write([]byte) (int, error) { return 0, w.err }
