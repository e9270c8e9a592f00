package kafkatest

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// reachable rejects faults that no request can match: a Server does not serve the API, or its
// requests lack a field that the fault selects by.
func (f *Fault) reachable() error {
	for _, p := range f.Partitions {
		if p < 0 {
			return fmt.Errorf("fault: Partitions has %d: partitions count from 0", p)
		}
	}
	for _, key := range f.APIs {
		if !serves(key) {
			return fmt.Errorf("fault: APIs has %s: a Server has no such API", apiName(key))
		}
		if !f.fits(key) {
			return fmt.Errorf("fault: %s requests name no %s, so that none is selected", key, f.selectors())
		}
	}
	return nil
}

// serves reports whether a Server has an API in any release. Telemetry is not included.
func serves(key kafka.Key) bool {
	_, _, served := kafka.ServedVersions(key)
	return served && key != kafka.GetTelemetrySubscriptions && key != kafka.PushTelemetry
}

// apiName returns the name of an API for messages. key need not be an API.
func apiName(key kafka.Key) string {
	if name := kmsg.NameForKey(int16(key)); name != "Unknown" {
		return fmt.Sprintf("%s (%d)", name, key)
	}
	return strconv.Itoa(int(key))
}

// fits reports whether a request of an API can match the fault.
func (f *Fault) fits(key kafka.Key) bool {
	for _, t := range nameable(key) {
		if (f.Topic == "" || t.namesTopic() || t.all) && (len(f.Partitions) == 0 || t.partition >= 0 || t.all) &&
			(f.Group == "" || t.group != "") && (f.TransactionalID == "" || t.txn != "") {
			return true
		}
	}
	return false
}

// selectors returns the names of the fields that select by targets of a request.
func (f *Fault) selectors() (text string) {
	for _, field := range []struct {
		name string
		set  bool
	}{{"Topic", f.Topic != ""}, {"Partitions", len(f.Partitions) > 0}, {"Group", f.Group != ""}, {"TransactionalID", f.TransactionalID != ""}} {
		switch {
		case !field.set:
		case text == "":
			text = field.name
		default:
			text += " with " + field.name
		}
	}
	return text
}

// nameable returns targets with all fields that a request of an API can name.
func nameable(key kafka.Key) []target {
	if known, ok := nameables.Load(key); ok {
		return known.([]target)
	}
	req := kmsg.RequestForKey(int16(key))
	req.SetVersion(req.MaxVersion())
	all := targets(req)
	// the kind of a name may depend on a number beside it
	for _, kind := range []int64{0, coordinatorOfTransactions, int64(resourceTopic), int64(resourceGroup)} {
		full := kmsg.RequestForKey(int16(key))
		full.SetVersion(full.MaxVersion())
		fillNames(reflect.ValueOf(full).Elem(), kind)
		all = append(all, targets(full)...)
	}
	nameables.Store(key, all)
	return all
}

var nameables sync.Map // results of nameable, by kafka.Key

// fillNames sets all fields of a request that can name targets.
func fillNames(v reflect.Value, kind int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Version", "UnknownTags":
			case "CoordinatorType", "ResourceType":
				v.Field(i).SetInt(kind)
			default:
				fillNames(v.Field(i), kind)
			}
		}
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		fillNames(one, kind)
		v.Set(reflect.Append(v, one))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillNames(v.Elem(), kind)
	case reflect.Array: // an id
		v.Index(0).SetUint(1)
	case reflect.String:
		v.SetString("x")
	}
}

// knownCode reports whether Kafka has an error code.
func knownCode(code kafka.Code) bool { return code.String() != strconv.Itoa(int(code)) }
