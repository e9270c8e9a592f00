package interop

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A correspondence says which id of ours is which of Kafka's. Ids are not ignored: one that was
// seen stands for the same thing in every later answer.
type correspondence struct {
	toOurs, toTheirs map[string]any // by kind and value
	texts            [][2]string    // spellings of Kafka's ids, and of ours
}

func newCorrespondence() *correspondence {
	return &correspondence{toOurs: map[string]any{}, toTheirs: map[string]any{}}
}

func idKey(kind string, v any) string { return fmt.Sprint(kind, ":", v) }

func (c *correspondence) ours(kind string, theirs any) (any, bool) {
	v, ok := c.toOurs[idKey(kind, theirs)]
	return v, ok
}

// bind notes a pair. It reports false if one of them already stands for another.
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

// text returns a text with our ids in the place of Kafka's.
func (c *correspondence) text(s string) string {
	for _, pair := range c.texts {
		if len(pair[0]) > 8 {
			s = strings.ReplaceAll(s, pair[0], pair[1])
		}
	}
	return s
}

// kindOf returns what a field is an id of; "": of nothing.
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

// An id is one of which the broker says what it is.
type id struct {
	kind string
	v    any
}

// A view turns answers into trees that can be compared: maps, lists, values and ids.
type view struct {
	prefix string // names of other scripts are left out
	asked  string // the request, as text
}

// left are the fields that no two brokers have in common, or that tell the time.
var left = map[string]bool{"UnknownTags": true, "ThrottleMillis": true, "Host": true, "Port": true, "ClusterID": true, "Rack": true, "SubscriptionID": true,
	"Version": true, "ReplicaDirectoryID": true, "LastFetchTimestamp": true, "LastCaughtUpTimestamp": true, "TotalBytes": true, "UsableBytes": true, "Dir": true, "Size": true, "LogEndOffsetQuorum": true}

// times are fields of which only whether there is one is compared.
var times = map[string]bool{"StartTimestamp": true, "LastTimestamp": true, "LogAppendTimeMillis": true, "LogAppendTime": true, "TxnStartTimestamp": true, "PushIntervalMillis": true}

func (w view) tree(field string, v reflect.Value) any {
	switch v.Kind() {
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
			return nil // as a list of nothing is mostly read
		}
		if field != "RecordBatches" {
			slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(plainly(a), plainly(b)) })
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
		return fmt.Sprint(v.Bool())
	case reflect.Float64:
		return fmt.Sprint(v.Float())
	}
	if v.CanUint() {
		return fmt.Sprint(v.Uint())
	}
	n := v.Int()
	if kind := kindOf(field); kind != "" && (n > 0 || n == 0 && kind == "producer") && v.Kind() != reflect.Int8 && v.Kind() != reflect.Int16 && (kind != "member") {
		return id{kind, n}
	}
	if times[field] && n >= 0 {
		return "some"
	}
	return fmt.Sprint(n)
}

// foreign reports whether an element is about what neither this script nor its request names.
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

// plainly is a tree as text in which all ids are alike, to sort by.
func plainly(v any) string {
	switch v := v.(type) {
	case map[string]any:
		keys := []string{}
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var b strings.Builder
		for _, first := range []bool{true, false} { // names first
			for _, k := range keys {
				if (k == "Topic" || k == "Partition" || k == "Name") == first {
					b.WriteString(k + ":" + plainly(v[k]) + " ")
				}
			}
		}
		return "{" + b.String() + "}"
	case []any:
		s := "["
		for _, e := range v {
			s += plainly(e) + " "
		}
		return s + "]"
	case id:
		return "<" + v.kind + ">"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%q", v)
}

// A difference is where two answers are not the same.
type difference struct{ path, theirs, ours string }

func (d difference) String() string {
	return fmt.Sprintf("%s: Kafka %s, Strata %s", d.path, d.theirs, d.ours)
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// diff compares two trees, and binds ids that are new to both.
func (c *correspondence) diff(path string, theirs, ours any) (out []difference) {
	switch t := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			return []difference{{path, plainly(theirs), plainly(ours)}}
		}
		keys := []string{}
		for k := range t {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			out = append(out, c.diff(path+"."+k, t[k], o[k])...)
		}
		return out
	case []any:
		o, ok := ours.([]any)
		if !ok || len(o) != len(t) {
			return []difference{{path, plainly(theirs), plainly(ours)}}
		}
		for i := range t {
			label := ""
			if m, ok := t[i].(map[string]any); ok && strings.HasSuffix(path, "Configs") {
				label, _ = m["Name"].(string)
			}
			out = append(out, c.diff(path+"["+label+"]", t[i], o[i])...)
		}
		return out
	case id:
		if o, ok := ours.(id); !ok || !c.bind(t.kind, t.v, o.v) {
			return []difference{{path, fmt.Sprint("id ", t.v, " for ", c.toOurs[idKey(t.kind, t.v)]), fmt.Sprint(ours)}}
		}
		return nil
	case string:
		o, ok := ours.(string)
		if !ok || anyID.ReplaceAllString(c.text(t), "UUID") != anyID.ReplaceAllString(o, "UUID") {
			return []difference{{path, plainly(theirs), plainly(ours)}}
		}
		return nil
	}
	if theirs != ours {
		return []difference{{path, plainly(theirs), plainly(ours)}}
	}
	return nil
}

// compare returns in what two answers to a request differ. A nil answer is a closed connection.
func (c *correspondence) compare(w view, theirs, ours kmsg.Response) []difference {
	switch {
	case theirs == nil && ours == nil:
		return nil
	case theirs == nil:
		return []difference{{"", "closed", plainly(w.tree("", reflect.ValueOf(ours)))}}
	case ours == nil:
		return []difference{{"", plainly(w.tree("", reflect.ValueOf(theirs))), "closed"}}
	}
	return c.diff("", w.tree("", reflect.ValueOf(theirs)), w.tree("", reflect.ValueOf(ours)))
}

// readBatches returns what batches say, without what says when they were written.
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
		u32 := func(at int) string { return fmt.Sprint(int32(binary.BigEndian.Uint32(batch[at:]))) }
		m := map[string]any{
			"Offset": fmt.Sprint(binary.BigEndian.Uint64(batch)), "Epoch": u32(12), "Magic": fmt.Sprint(batch[16]), "Attributes": fmt.Sprint(batch[22]), "Last": u32(23),
			"ProducerEpoch": fmt.Sprint(int16(binary.BigEndian.Uint16(batch[51:]))), "Sequence": u32(53), "Count": u32(57), "ProducerID": "-1",
		}
		if crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
			m["Sum"] = "wrong"
		}
		if producer := int64(binary.BigEndian.Uint64(batch[43:])); producer >= 0 {
			m["ProducerID"] = id{"producer", producer}
		}
		if batch[22]&0x20 == 0 { // of control records the epoch of the coordinator is each broker's own
			m["First"], m["Values"] = fmt.Sprint(binary.BigEndian.Uint64(batch[27:])), fmt.Sprintf("%x", batch[61:])
			if batch[22]&8 == 0 {
				m["Max"] = fmt.Sprint(binary.BigEndian.Uint64(batch[35:]))
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
