package interop

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A correspondence maps Kafka's ids to Strata's. Ids are not ignored: a known id must stand for
// the same object in every later answer.
type correspondence struct {
	toOurs, toTheirs map[string]any // keys are kind and value
	texts            [][2]string    // spellings of Kafka's id and of Strata's
}

func newCorrespondence() *correspondence {
	return &correspondence{toOurs: map[string]any{}, toTheirs: map[string]any{}}
}

func idKey(kind string, v any) string { return fmt.Sprint(kind, ":", v) }

func (c *correspondence) ours(kind string, theirs any) (any, bool) {
	v, ok := c.toOurs[idKey(kind, theirs)]
	return v, ok
}

// bind adds a pair. It returns false if either id is already paired with another one.
func (c *correspondence) bind(kind string, theirs, ours any) bool {
	t, o := idKey(kind, theirs), idKey(kind, ours)
	before, known := c.toOurs[t]
	back, taken := c.toTheirs[o]
	if known || taken {
		return known && taken && idKey(kind, before) == o && idKey(kind, back) == t
	}
	c.toOurs[t], c.toTheirs[o] = ours, theirs
	for i, s := range spellings(theirs) {
		c.texts = append(c.texts, [2]string{s, spellings(ours)[i]})
	}
	return true
}

func spellings(id any) []string {
	switch id := id.(type) {
	case [16]byte:
		h := hex.EncodeToString(id[:])
		return []string{base64.RawURLEncoding.EncodeToString(id[:]), h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]}
	case string:
		return []string{id}
	}
	return nil
}

// text returns s with Strata's ids in place of Kafka's.
func (c *correspondence) text(s string) string {
	for _, pair := range c.texts {
		if len(pair[0]) > 8 {
			s = strings.ReplaceAll(s, pair[0], pair[1])
		}
	}
	return s
}

// kindOf returns the kind of id that a field has; "" if it has none.
func kindOf(field string) string {
	switch field {
	case "TopicID", "TopicIDs":
		return "topic"
	case "MemberID", "LeaderID", "Leader":
		return "member"
	case "ProducerID", "ProducerIDFilters":
		return "producer"
	case "SessionID":
		return "session"
	case "ClientInstanceID":
		return "client"
	}
	return ""
}

// An id is a value that the broker chose, with its kind.
type id struct {
	kind string
	v    any
}

// A scalar is a number or a flag, as it is printed.
type scalar string

func scalarOf(v any) scalar { return scalar(fmt.Sprint(v)) }

// A view turns answers into comparable trees of maps, lists, values and ids.
type view struct {
	prefix string // elements with names of other scripts are left out
	asked  string // the request, as text
	twice  bool   // the request has a name twice
}

func viewOf(prefix string, req kmsg.Request) view {
	return view{prefix, jsonOf(req), namesTwice(jsonTree(req))}
}

// left has the fields that differ between any two brokers, or that depend on the time.
var left = map[string]bool{"UnknownTags": true, "ThrottleMillis": true, "Host": true, "Port": true, "ClusterID": true, "Rack": true, "SubscriptionID": true,
	"Version": true, "ReplicaDirectoryID": true, "LastFetchTimestamp": true, "LastCaughtUpTimestamp": true, "TotalBytes": true, "UsableBytes": true, "Dir": true, "Size": true, "LogEndOffsetQuorum": true}

// times has the fields of which only presence is compared.
var times = map[string]bool{"StartTimestamp": true, "LastTimestamp": true, "LogAppendTimeMillis": true, "LogAppendTime": true, "TxnStartTimestamp": true, "PushIntervalMillis": true}

func (w view) tree(field string, v reflect.Value) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return w.tree(field, v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !left[name] {
				out[name] = w.tree(name, v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if field == "RecordBatches" || field == "Records" {
				return readBatches(v.Bytes())
			}
			return fmt.Sprintf("%x", v.Bytes())
		}
		if v.IsNil() {
			return nil
		}
		list := []any{}
		for i := range v.Len() {
			if e := v.Index(i); !w.foreign(e) {
				list = append(list, w.tree(field, e))
			}
		}
		if len(list) == 0 && v.Len() > 0 {
			return nil // most code reads an empty list like this
		}
		if strings.HasPrefix(field, "Subscribed") { // a set
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(plainly(a), plainly(b)) })
		}
		return list
	case reflect.Array:
		if kind := kindOf(field); kind != "" && !v.IsZero() && v.Len() == 16 {
			return id{kind, v.Convert(reflect.TypeFor[[16]byte]()).Interface()}
		}
		return fmt.Sprintf("%x", v.Interface())
	case reflect.String:
		if kind := kindOf(field); kind != "" && v.Len() > 0 {
			return id{kind, v.String()}
		}
		return v.String()
	case reflect.Bool:
		return scalarOf(v.Bool())
	case reflect.Float64:
		return scalarOf(v.Float())
	}
	if v.CanUint() {
		return scalarOf(v.Uint())
	}
	n := v.Int()
	if kind := kindOf(field); kind != "" && (n > 0 || n == 0 && kind == "producer") && v.Kind() != reflect.Int8 && v.Kind() != reflect.Int16 && (kind != "member") {
		return id{kind, n}
	}
	if times[field] && n >= 0 {
		return scalar("some")
	}
	return scalarOf(n)
}

// foreign reports whether an element is about a name that neither this script nor its request has.
func (w view) foreign(v reflect.Value) bool {
	if v.Kind() != reflect.Struct {
		return false
	}
	if e := v.FieldByName("Entity"); e.IsValid() && e.Len() > 0 {
		return w.foreign(e.Index(0))
	}
	for _, name := range []string{"Topic", "Group", "GroupID", "TransactionalID", "User", "Name", "ResourceName", "Principal"} {
		if name == "Name" && !strings.Contains(v.Type().Name(), "ListConfigResources") && !strings.Contains(v.Type().Name(), "Quotas") {
			continue
		}
		f := v.FieldByName(name)
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			f = f.Elem()
		}
		if f.Kind() == reflect.String && f.Len() > 0 && !strings.Contains(f.String(), w.prefix) && !strings.Contains(w.asked, jsonText(f.String())) {
			return true
		}
	}
	return false
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// plainly returns a tree as text, in which all ids of a kind are alike.
func plainly(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var b strings.Builder
		for _, first := range []bool{true, false} { // the subject's fields come first
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if about[k] == first {
					b.WriteString(k + ":" + plainly(v[k]) + " ")
				}
			}
		}
		return "{" + strings.TrimSuffix(b.String(), " ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = plainly(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case id:
		return "<" + v.kind + ">"
	case scalar:
		return string(v)
	case nil:
		return "null"
	case absent:
		return "none"
	}
	return fmt.Sprintf("%q", v)
}

// about has the fields that identify the subject of a list's element. Lists whose elements have
// such a field are unordered. In any other list an answer belongs to the request's element at the
// same index.
var about = map[string]bool{"ApiKey": true, "Topic": true, "TopicID": true, "Partition": true, "Name": true, "ResourceType": true, "ResourceName": true, "User": true,
	"Group": true, "GroupID": true, "TransactionalID": true, "ProducerID": true, "MemberID": true, "InstanceID": true, "Key": true, "Entity": true, "Type": true,
	"Principal": true, "Operation": true, "PermissionType": true, "Mechanism": true, "NodeID": true, "SubtopologyID": true}

// absent stands for an element that one of two lists lacks.
type absent struct{}

// subject returns the subject of a list's element, with Strata's ids; "" if no field identifies
// it.
func (c *correspondence) subject(v any, theirs bool) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	var b strings.Builder
	name, _ := m["Topic"].(string)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if about[k] && (k != "TopicID" || name == "") {
			b.WriteString(k + ":" + c.plainlyOurs(m[k], theirs) + " ")
		}
	}
	return b.String()
}

// plainlyOurs is plainly, with the ids that are already paired.
func (c *correspondence) plainlyOurs(v any, theirs bool) string {
	switch v := v.(type) {
	case id:
		known := any(nil)
		if _, ok := c.toTheirs[idKey(v.kind, v.v)]; ok && !theirs {
			known = v.v
		} else if ours, ok := c.toOurs[idKey(v.kind, v.v)]; ok && theirs {
			known = ours
		}
		return fmt.Sprintf("<%s %v>", v.kind, known)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, c.plainlyOurs(e, theirs))
		}
		slices.Sort(parts)
		return fmt.Sprint(parts)
	case map[string]any:
		return c.subject(v, theirs)
	}
	return plainly(v)
}

// A difference is a place where two answers differ. path names the place; at also has the index in
// each list.
type difference struct{ path, at, theirs, ours string }

func (d difference) String() string {
	return fmt.Sprintf("%s: Kafka %s, Strata %s", d.path, d.theirs, d.ours)
}

// element returns the innermost list element that contains the difference.
func (d difference) element() string { return d.at[:strings.LastIndexByte(d.at, ']')+1] }

// A place is the position of a tree in an answer.
type place struct{ path, at string }

func (p place) field(name string) place { return place{p.path + "." + name, p.at + "." + name} }

func (p place) elem(label string, i int) place {
	return place{p.path + "[" + label + "]", fmt.Sprintf("%s[%d]", p.at, i)}
}

func (p place) differs(theirs, ours any) []difference {
	return []difference{{p.path, p.at, plainly(theirs), plainly(ours)}}
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// diff compares two trees, and pairs ids that are new on both sides.
func (c *correspondence) diff(p place, theirs, ours any) (out []difference) {
	switch t := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			return p.differs(theirs, ours)
		}
		for _, k := range slices.Sorted(maps.Keys(t)) {
			if k == "ErrorMessage" && (t["ErrorCode"] != o["ErrorCode"] || wordless[fmt.Sprint(t[k])]) {
				// The text follows from the code; if Kafka sends none, any text is accepted.
				continue
			}
			out = append(out, c.diff(p.field(k), t[k], o[k])...)
		}
		return out
	case []any:
		o, ok := ours.([]any)
		if !ok && (ours != nil || len(t) == 0) {
			return p.differs(theirs, ours)
		}
		return c.lists(p, t, o)
	case id:
		if o, ok := ours.(id); !ok || !c.bind(t.kind, t.v, o.v) {
			if _, known := c.toOurs[idKey(t.kind, t.v)]; known && ok {
				return []difference{{p.path, p.at, "<" + t.kind + "> of what was before", "another <" + t.kind + ">"}}
			}
			return p.differs(theirs, ours)
		}
		return nil
	case string:
		o, ok := ours.(string)
		if !ok || anyID.ReplaceAllString(c.text(t), "UUID") != anyID.ReplaceAllString(o, "UUID") {
			return p.differs(theirs, ours)
		}
		return nil
	case nil:
		if o, ok := ours.([]any); ok && len(o) > 0 {
			return c.lists(p, nil, o)
		}
	}
	if theirs != ours {
		return p.differs(theirs, ours)
	}
	return nil
}

// wordless has Kafka's messages that carry no information.
var wordless = map[string]bool{"": true, "<nil>": true, "NONE": true, "The server experienced an unexpected error when processing the request.": true}

// lists compares lists: by the subjects of their elements, or by order if the elements have none.
func (c *correspondence) lists(p place, theirs, ours []any) (out []difference) {
	t, o := slices.Clone(theirs), slices.Clone(ours)
	bySubject := func(theirs bool) func(a, b any) int {
		return func(a, b any) int {
			return cmp.Or(strings.Compare(c.subject(a, theirs), c.subject(b, theirs)), strings.Compare(plainly(a), plainly(b)))
		}
	}
	if slices.ContainsFunc(slices.Concat(t, o), func(v any) bool { return c.subject(v, true) != "" }) {
		slices.SortStableFunc(t, bySubject(true))
		slices.SortStableFunc(o, bySubject(false))
	}
	for i := 0; len(t) > 0 || len(o) > 0; i++ {
		order := 0
		switch {
		case len(t) == 0:
			order = 1
		case len(o) == 0:
			order = -1
		default:
			order = strings.Compare(c.subject(t[0], true), c.subject(o[0], false))
		}
		at := p.elem(p.label(t, o), i)
		if order == 0 {
			n, m := c.alike(t, true), c.alike(o, false)
			if n < m && c.amongThem(at, t[:n], o[:m]) {
				out = append(out, difference{at.path, at.at, "once", "as often as asked"})
				t, o = t[n:], o[m:]
				continue
			}
		}
		var a, b any = absent{}, absent{}
		if order <= 0 {
			a, t = t[0], t[1:]
		}
		if order >= 0 {
			b, o = o[0], o[1:]
		}
		out = append(out, c.diff(at, a, b)...)
	}
	return out
}

// alike returns the number of elements at the start of a list that have the same subject.
func (c *correspondence) alike(list []any, theirs bool) int {
	first := c.subject(list[0], theirs)
	n := 1
	for first != "" && n < len(list) && c.subject(list[n], theirs) == first {
		n++
	}
	return n
}

// amongThem reports whether ours contains each element of theirs, up to ids.
func (c *correspondence) amongThem(p place, theirs, ours []any) bool {
	for _, t := range theirs {
		if !slices.ContainsFunc(ours, func(o any) bool {
			try := &correspondence{maps.Clone(c.toOurs), maps.Clone(c.toTheirs), c.texts}
			return len(try.diff(p, t, o)) == 0
		}) {
			return false
		}
	}
	return true
}

// label returns the name in a path of a list's next element: a configuration's key, or "".
func (p place) label(lists ...[]any) string {
	for _, l := range lists {
		if len(l) > 0 && strings.HasSuffix(p.path, "Configs") {
			if m, ok := l[0].(map[string]any); ok {
				name, _ := m["Name"].(string)
				return name
			}
		}
	}
	return ""
}

// compare returns the differences between two answers to a request. A nil answer is a closed
// connection.
func (c *correspondence) compare(w view, theirs, ours kmsg.Response) []difference {
	var t, o any = w.tree("", reflect.ValueOf(theirs)), w.tree("", reflect.ValueOf(ours))
	switch {
	case theirs == nil && ours == nil:
		return nil
	case theirs == nil:
		return []difference{{"", "", "closed", plainly(o)}}
	case ours == nil:
		return []difference{{"", "", plainly(t), "closed"}}
	}
	if w.twice {
		t, o = merged(t), merged(o)
	}
	return c.diff(place{}, t, o)
}

// merged returns a tree with the list elements of each subject merged into one. For a subject that
// a request has twice, some answers have two elements, others one.
func merged(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = merged(e)
		}
		return out
	case []any:
		var out []any
		at := map[string]int{}
		for _, e := range v {
			m, ok := e.(map[string]any)
			if !ok {
				out = append(out, e)
				continue
			}
			self, all := "", ""
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if list, nested := m[k].([]any); !nested && m[k] != nil || len(list) > 0 && scalars(list) {
					self += fmt.Sprintf("%s:%v ", k, m[k])
				}
			}
			all = self
			if i, known := at[all]; known {
				for k, e := range m {
					if list, ok := e.([]any); ok && !scalars(list) {
						before, _ := out[i].(map[string]any)[k].([]any)
						out[i].(map[string]any)[k] = slices.Concat(before, list)
					}
				}
				continue
			}
			at[all] = len(out)
			out = append(out, maps.Clone(m))
		}
		for i, e := range out {
			out[i] = merged(e)
		}
		return out
	}
	return v
}

func scalars(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return ok })
}

// readBatches returns the contents of batches without their timestamps.
func readBatches(b []byte) any {
	if b == nil {
		return nil
	}
	batches := []any{}
	for len(b) > 61 {
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		if size > len(b) || size < 61 {
			break
		}
		batch := b[:size]
		u32 := func(at int) scalar { return scalarOf(int32(binary.BigEndian.Uint32(batch[at:]))) }
		m := map[string]any{
			"Offset": scalarOf(binary.BigEndian.Uint64(batch)), "Epoch": u32(12), "Magic": scalarOf(batch[16]), "Attributes": scalarOf(batch[22]), "Last": u32(23),
			"ProducerEpoch": scalarOf(int16(binary.BigEndian.Uint16(batch[51:]))), "Sequence": u32(53), "Count": u32(57), "Producer": scalar("-1"),
		}
		if crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
			m["Sum"] = "wrong"
		}
		if producer := int64(binary.BigEndian.Uint64(batch[43:])); producer >= 0 {
			m["Producer"] = id{"producer", producer}
		}
		// The coordinator epoch in control records differs between brokers.
		if batch[22]&0x20 == 0 {
			m["First"], m["Values"] = scalarOf(binary.BigEndian.Uint64(batch[27:])), fmt.Sprintf("%x", batch[61:])
			if batch[22]&8 == 0 {
				m["Max"] = scalarOf(binary.BigEndian.Uint64(batch[35:]))
			}
		}
		batches = append(batches, m)
		b = b[size:]
	}
	if len(b) > 0 {
		batches = append(batches, fmt.Sprint("a part of ", len(b)))
	}
	return batches
}
