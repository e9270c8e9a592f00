package interop

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A tally counts the requests sent so far.
type tally struct {
	mu    sync.Mutex
	sent  map[offer]int
	good  map[offer]int  // requests that Kafka answered without any error
	times map[*cause]int // differences by their cause
}

// An offer is an API in a version that both brokers serve.
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

// listed returns the number of differences that have a cause.
func (y *tally) listed() (n int) {
	for _, times := range y.times {
		n += times
	}
	return n
}

// unasked returns the APIs and versions of which no request was sent.
func (y *tally) unasked(versions map[int16][2]int16) (none []offer) {
	for key, v := range versions {
		for version := v[0]; version <= v[1]; version++ {
			if s := (offer{key, version}); y.sent[s] == 0 {
				none = append(none, s)
			}
		}
	}
	return none
}

// report logs the requests sent and the differences by cause.
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

// hasError reports whether an answer contains an error code.
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
