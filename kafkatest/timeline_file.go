package kafkatest

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/picture"
	"github.com/stratalog/strata/kafka"
)

const (
	// artifacts is the environment variable with the directory of timelines.
	artifacts = "KAFKATEST_ARTIFACTS"
	// maxFiles bounds the files of one process.
	maxFiles = 20
	maxLanes = 250
	maxTitle = 240

	maxGroupLanes = 50
)

var files atomic.Int32 // that this process has written, or tried to

// WriteTimeline writes the timeline so far as an HTML file without scripts: lanes for the test, the
// cluster, each group and each connection of a client, and the text of Timeline. It shows the last
// HistorySize requests, 1,024 calls and 1,024 events, in at most 250 lanes for connections and 50
// for groups. It returns the errors of w.
func (s *Server) WriteTimeline(w io.Writer) error {
	return s.itself().timeline().write(w)
}

func (t *timeline) write(w io.Writer) error {
	title := html.EscapeString(t.test)
	_, err := fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>%s</title><style>
body{font:14px system-ui,sans-serif;margin:1rem;color:#1c1c1e;background:#fcfcfa}
pre{font:12px ui-monospace,monospace;overflow-x:auto}
.scroll{overflow-x:auto}.scroll svg{max-width:none}
@media (prefers-color-scheme:dark){body{color:#f0f0ee;background:#1c1c1e}}
%s</style></head><body><main>
<h1>%s</h1>
<p>%d requests. Each client has a lane for each of its connections. Red is an error, grey a request without an answer, pale one that waits,
framed one that a fault has hit. Time in which nothing begins or ends is folded, with its length above. Rest the pointer on a bar for more.</p>
<div class="scroll" tabindex="0" role="region" aria-label="timeline">
%s</div>
<h2>In words</h2>
<pre tabindex="0">%s</pre>
</main></body></html>
`, title, picture.Style, title, t.total, t.picture().SVG(), html.EscapeString(t.text()))
	return err
}

// picture returns the picture of the file.
func (t *timeline) picture() *picture.Timeline {
	p := &picture.Timeline{Zero: t.began, Label: fmt.Sprintf("Timeline of %s: %d requests, %d calls of the test, %d events of the cluster", t.test, t.total, len(t.calls), len(t.events))}
	test, cluster := picture.Lane{Name: "the test"}, picture.Lane{Name: "the cluster"}
	for _, c := range t.calls {
		bar := picture.Bar{Began: c.began, Ended: c.ended, Label: name(c.what), Title: title(t.since(c.began) + " " + c.text()), Kind: picture.Call}
		if c.failed {
			bar.Kind = picture.Error
		}
		test.Bars = append(test.Bars, bar)
	}
	for i := 0; i < len(t.events); {
		n := i + 1
		for n < len(t.events) && t.events[n].began.Sub(t.events[i].began) < time.Millisecond {
			n++
		}
		cluster.Bars = append(cluster.Bars, t.eventBar(t.events[i:n]))
		i = n
	}
	p.Lanes = slices.Concat([]picture.Lane{test, cluster}, t.groupLanes(), t.connections())
	return p
}

// eventBar shows events that follow each other at once. The first one is often the cause.
func (t *timeline) eventBar(es []happening) picture.Bar {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.what
	}
	label := lines[0]
	if len(es) > 1 {
		label = fmt.Sprintf("%s, and %d more", label, len(es)-1)
	}
	return picture.Bar{Began: es[0].began, Label: label, Title: title(t.since(es[0].began) + " " + strings.Join(lines, "\n")), Kind: picture.Change}
}

// groupLanes returns a lane for each group, with a bar for each rebalance.
func (t *timeline) groupLanes() (lanes []picture.Lane) {
	at := map[string]int{}
	for i, e := range t.groups {
		n, ok := at[e.Group]
		switch {
		case !t.ends(i):
			continue
		case !ok && len(lanes) == maxGroupLanes:
			continue
		case !ok:
			n, at[e.Group] = len(lanes), len(lanes)
			lanes = append(lanes, picture.Lane{Name: "group " + e.Group})
		}
		bar := picture.Bar{Began: e.Time, Label: e.Kind.String(), Title: title(t.since(e.Time) + " " + e.String()), Kind: picture.Change}
		switch e.Kind {
		case group.CommitRefused:
			bar.Kind = picture.Error
		case group.Joining, group.Joined, group.Assigned:
			bar.Began, bar.Ended, bar.Label = e.Began, e.Time, fmt.Sprintf("generation %d", e.Generation)
		}
		lanes[n].Bars = append(lanes[n].Bars, bar)
	}
	return lanes
}

// name is the first word of a call.
func name(call string) string {
	word, _, _ := strings.Cut(call, "(")
	return word
}

func title(s string) string {
	if r := []rune(s); len(r) > maxTitle {
		return string(r[:maxTitle-1]) + "…"
	}
	return s
}

// connections returns a lane for each connection, sorted by client. The rest of too many is one
// lane.
func (t *timeline) connections() (lanes []picture.Lane) {
	type key struct {
		client string
		broker int32
		conn   uint64
	}
	at := map[key]int{}
	var keys []key
	for i := range t.exchanges {
		x := &t.exchanges[i]
		k := key{x.ClientID, x.Broker, x.Conn}
		if _, ok := at[k]; !ok {
			at[k], keys = len(keys), append(keys, k)
		}
	}
	order := make([]int, len(keys))
	slices.SortStableFunc(keys, func(a, b key) int { return strings.Compare(a.client, b.client) })
	for i, k := range keys {
		order[at[k]] = min(i, maxLanes-1)
	}
	for i, k := range keys[:min(len(keys), maxLanes)] {
		lanes = append(lanes, picture.Lane{Name: fmt.Sprintf("%s, connection %d, broker %d", k.client, k.conn, k.broker)})
		if i == maxLanes-1 && len(keys) > maxLanes {
			lanes[i].Name = fmt.Sprintf("%d other connections", len(keys)-i)
		}
	}
	for i := range t.exchanges {
		x := &t.exchanges[i]
		l := &lanes[order[at[key{x.ClientID, x.Broker, x.Conn}]]]
		l.Bars = append(l.Bars, t.bar(x))
	}
	return lanes
}

// bar shows an exchange.
func (t *timeline) bar(x *remembered) picture.Bar {
	text, _ := x.line(t.nameOf)
	b := picture.Bar{Began: x.Received, Ended: x.Answered, Label: kafka.Key(x.Key).String(), Kind: picture.Work, Struck: x.disturbed}
	switch {
	case x.Answered.IsZero(), x.Response == nil:
		b.Kind = picture.Gone
	case len(Codes(x.Response)) > 0:
		b.Kind = picture.Error
	case waits(x.Key):
		b.Kind = picture.Wait
	}
	if x.Answered.IsZero() {
		b.Title = title(t.since(x.Received) + " " + text)
	} else {
		b.Title = title(fmt.Sprintf("%s %s, after %s", t.since(x.Received), text, picture.Length(x.Answered.Sub(x.Received))))
	}
	return b
}

// report logs the timeline of a test that has failed, and writes it to a file if there is a
// directory for it.
func (s *Server) report() {
	failed, ok := s.t.(interface{ Failed() bool })
	if s.cfg.NoTimeline || !ok || !failed.Failed() {
		return
	}
	t := s.timeline()
	where := ""
	if path, err := t.save(s.t); err != nil {
		where = fmt.Sprintf("; no file: %v", err)
	} else if path != "" {
		where = "; as a picture: " + path
	}
	first, rest, _ := strings.Cut(t.text(), "\n")
	s.t.Logf("kafkatest: %s%s\n%s", strings.TrimSuffix(first, ":"), where+":", rest)
}

// save writes the file, and returns its path; "" if there is no directory for it.
func (t *timeline) save(test T) (path string, err error) {
	dir := os.Getenv(artifacts)
	if dir == "" {
		kept := flag.Lookup("test.artifacts")
		with, ok := test.(interface{ ArtifactDir() string })
		if !ok || kept == nil || kept.Value.String() != "true" {
			return "", nil
		}
		dir = with.ArtifactDir()
	}
	if files.Add(1) > maxFiles {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, fileName(t.test)+"-*.html")
	if err != nil {
		return "", err
	}
	err = errors.Join(t.write(f), f.Close())
	path, absErr := filepath.Abs(f.Name())
	return path, errors.Join(err, absErr)
}

// fileName is the name of a test as part of a file's.
func fileName(test string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, test)
	return name[:min(len(name), 100)]
}
