package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A cause is a reason for differences: a paragraph of differential.txt. The head of that file
// describes the format.
type cause struct {
	why    string
	rare   bool
	places []*deviation
}

// A deviation is a pattern of differences that a cause explains.
type deviation struct {
	cause        *cause
	line         string
	api          int16 // -1: any
	from, to     int16 // versions
	path         *regexp.Regexp
	whole        bool // covers the whole answer
	twice        bool // applies only if the request has a name twice
	theirs, ours *regexp.Regexp
	asked        *regexp.Regexp // nil: any request
	used         atomic.Int64
}

// causes returns the causes in differential.txt.
var causes = sync.OnceValue(func() []*cause {
	text, err := os.ReadFile("differential.txt")
	if err != nil {
		panic(err)
	}
	all, err := parseCauses(string(text))
	if err != nil {
		panic(err)
	}
	return all
})

func parseCauses(text string) (all []*cause, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch why, begins := strings.CutPrefix(line, "why "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case begins:
			why, rare := strings.CutPrefix(why, "(rare) ")
			all = append(all, &cause{why: why, rare: rare})
		case len(all) == 0:
			return nil, fmt.Errorf("differential.txt: %q is of no cause", line)
		default:
			d, err := parseDeviation(line)
			if err != nil {
				return nil, fmt.Errorf("differential.txt: %q: %w", line, err)
			}
			d.cause = all[len(all)-1]
			d.cause.places = append(d.cause.places, d)
		}
	}
	return all, nil
}

func parseDeviation(line string) (*deviation, error) {
	parts := strings.SplitN(line, " | ", 4)
	head := strings.Fields(parts[0])
	if len(head) != 3 || len(parts) < 3 || len(parts) > 4 {
		return nil, fmt.Errorf("it is not API VERSIONS PLACE | KAFKA | STRATA | REQUEST")
	}
	d := &deviation{line: line, api: -2, to: 999, theirs: pattern(parts[1]), ours: pattern(parts[2])}
	for key := range int16(100) {
		if kmsg.NameForKey(key) == head[0] {
			d.api = key
		}
	}
	if head[0] == "*" {
		d.api = -1
	}
	if d.api == -2 {
		return nil, fmt.Errorf("there is no such API")
	}
	if head[1] != "*" {
		from, to, several := strings.Cut(head[1], "-")
		if !several {
			to = from
		}
		for s, v := range map[string]*int16{from: &d.from, to: &d.to} {
			n, err := strconv.ParseInt(s, 10, 16)
			if err != nil {
				return nil, err
			}
			*v = int16(n)
		}
		if d.from == d.to || several {
			d.from, d.to = min(d.from, d.to), max(d.from, d.to)
		}
	}
	path, whole := strings.CutSuffix(head[2], "!")
	d.path, d.whole = pattern(path), whole
	if path == "-" {
		d.path = pattern("")
	}
	if len(parts) == 4 && parts[3] == "twice" {
		d.twice = true
	} else if len(parts) == 4 {
		asked, err := regexp.Compile(parts[3])
		if err != nil {
			return nil, err
		}
		d.asked = asked
	}
	return d, nil
}

// pattern returns a regular expression for a text in which * matches any text.
func pattern(glob string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$")
}

func (d *deviation) matches(req kmsg.Request, asked string, x difference) bool {
	return (d.api < 0 || d.api == req.Key()) && d.from <= req.GetVersion() && req.GetVersion() <= d.to &&
		d.path.MatchString(x.path) &&
		d.theirs.MatchString(x.theirs) && d.ours.MatchString(x.ours) && (d.asked == nil || d.asked.MatchString(asked)) &&
		(!d.twice || namesTwice(jsonTree(req)))
}

// unlisted returns the differences of an answer that have no cause. asked is the request in plain
// names.
func (y *tally) unlisted(req kmsg.Request, asked string, plain func(string) string, diffs []difference) (left []difference) {
	whole := false
	for _, x := range diffs {
		x.theirs, x.ours = plain(x.theirs), plain(x.ours)
		d := find(req, asked, x)
		if d == nil {
			left = append(left, x)
			continue
		}
		d.used.Add(1)
		y.mu.Lock()
		y.times[d.cause]++
		y.mu.Unlock()
		whole = whole || d.whole
	}
	if whole {
		return nil
	}
	return left
}

func find(req kmsg.Request, asked string, x difference) *deviation {
	for _, c := range causes() {
		for _, d := range c.places {
			if d.matches(req, asked, x) {
				return d
			}
		}
	}
	return nil
}

func jsonTree(v any) (tree any) {
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &tree) != nil {
		return nil
	}
	return tree
}

// namesTwice reports whether a list of a request has two elements with the same subject.
func namesTwice(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "TopicID" && k != "UnknownTags" && namesTwice(e) {
				return true
			}
		}
	case []any:
		seen := map[string]bool{}
		for _, e := range v {
			name := jsonText(e)
			if m, ok := e.(map[string]any); ok {
				name = ""
				for _, k := range []string{"Topic", "TopicID", "Partition", "ResourceType", "ResourceName", "Name", "TransactionalID", "ProducerID", "Group", "GroupID", "Entity", "Feature", "Type"} {
					if m[k] != nil && (k != "TopicID" || m["Topic"] == nil) {
						name += k + jsonText(m[k])
					}
				}
			}
			if name != "" && seen[name] || namesTwice(e) {
				return true
			}
			seen[name] = true
		}
	}
	return false
}
