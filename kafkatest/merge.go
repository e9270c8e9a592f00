package kafkatest

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/kafka"
)

// merge adds the elements of src to dst. They replace elements of dst for the same targets.
func merge(dst, src kmsg.Response) {
	mergeStruct(reflect.ValueOf(dst).Elem(), reflect.ValueOf(src).Elem())
}

func mergeStruct(dst, src reflect.Value) {
	for _, name := range responseLists {
		to, from := dst.FieldByName(name), src.FieldByName(name)
		if !to.IsValid() {
			continue
		}
		// a copy, because the handler of the request may share the list
		merged := reflect.AppendSlice(reflect.Zero(to.Type()), to)
		for i := range from.Len() {
			elem := from.Index(i)
			at := indexOf(merged, elem)
			switch {
			case at < 0:
				merged = reflect.Append(merged, elem)
			case hasAnswers(elem):
				inner := copyOf(merged.Index(at))
				mergeStruct(inner, elem)
				merged.Index(at).Set(inner)
			default:
				merged.Index(at).Set(elem)
			}
		}
		to.Set(merged)
	}
}

// responseLists are the fields of responses that have one element for each target.
var responseLists = []string{"Topics", "Partitions", "Groups", "Coordinators", "Resources", "Transactions", "Markers", "TransactionStates"}

// hasAnswers reports whether an element has such a list of its own.
func hasAnswers(v reflect.Value) bool {
	for _, name := range responseLists {
		if f := v.FieldByName(name); f.IsValid() && f.Len() > 0 {
			return true
		}
	}
	return false
}

// indexOf returns the index of the element of list with the same target as elem; -1 if there is
// none.
func indexOf(list, elem reflect.Value) int {
	for i := range list.Len() {
		if sameIdentity(list.Index(i), elem) {
			return i
		}
	}
	return -1
}

func sameIdentity(a, b reflect.Value) bool {
	for _, name := range errorreply.Identity {
		x, y := a.FieldByName(name), b.FieldByName(name)
		if x.IsValid() && !reflect.DeepEqual(x.Interface(), y.Interface()) {
			return false
		}
	}
	return true
}

// overwrite replaces the elements of resp that pick selects by errors: elements for partitions, or
// for whole topics.
func overwrite(resp kmsg.Response, code kafka.Code, depth depth, pick func(target) bool) {
	overwriteStruct(reflect.ValueOf(resp).Elem(), target{partition: -1}, code, depth, pick)
}

// depth is the list of a response whose elements a fault replaces.
type depth string

const (
	ofTopics     depth = "Topics"
	ofPartitions depth = "Partitions"
)

func overwriteStruct(v reflect.Value, ctx target, code kafka.Code, depth depth, pick func(target) bool) {
	ctx = ctx.within(v)
	for _, name := range responseLists {
		list := v.FieldByName(name)
		if !list.IsValid() {
			continue
		}
		changed := reflect.AppendSlice(reflect.Zero(list.Type()), list)
		for i := range changed.Len() {
			elem := copyOf(changed.Index(i))
			if name != string(depth) {
				overwriteStruct(elem, ctx, code, depth, pick)
			} else if pick(ctx.within(elem)) {
				elem = errorreply.Instead(elem, errorreply.Error{Code: int16(code), Message: faultMessage})
			}
			changed.Index(i).Set(elem)
		}
		list.Set(changed)
	}
}
