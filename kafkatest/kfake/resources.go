package kfake

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resourceLists are the lists in requests that Fault.Resource selects from: the field of the
// request, the field of its elements with the name, and the list of the response with the results
// in the same order.
var resourceLists = []struct{ request, name, response string }{
	{"Resources", "ResourceName", "Resources"}, // configurations
	{"Creations", "ResourceName", "Results"},   // ACLs
	{"Filters", "ResourceName", "Results"},     // filters of ACLs to delete
	{"FeatureUpdates", "Feature", "Results"},
	{"Users", "Name", "Results"}, // users whose credentials are described
	{"Members", "MemberID", "Members"},
}

// answeredAt returns the list of the response with the results for a resource, and their indexes.
func answeredAt(req kmsg.Request, resource string) (list string, at []int) {
	v := reflect.ValueOf(req).Elem()
	for _, names := range resourceLists {
		l := v.FieldByName(names.request)
		if !l.IsValid() || l.Kind() != reflect.Slice || l.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for i := range l.Len() {
			if text(l.Index(i).FieldByName(names.name)) == resource {
				at = append(at, i)
			}
		}
		return names.response, at
	}
	return "", nil
}

// text returns the value of a field that is a string or a pointer to one.
func text(v reflect.Value) string {
	if v.IsValid() && v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

// fail sets the error code of some elements of a list of a response.
func fail(resp kmsg.Response, list string, at []int, e *kerr.Error) {
	l := reflect.ValueOf(resp).Elem().FieldByName(list)
	for _, i := range at {
		if l.IsValid() && i < l.Len() {
			l.Index(i).FieldByName("ErrorCode").SetInt(int64(e.Code))
		}
	}
}
