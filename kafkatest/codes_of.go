package kafkatest

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Codes returns the distinct error codes in a response, in the order of their first occurrence. It
// returns none for a response without errors.
func Codes(resp kmsg.Response) []kafka.Code {
	var codes []kafka.Code
	if resp != nil {
		collectCodes(reflect.ValueOf(resp).Elem(), &codes)
	}
	return codes
}

func collectCodes(v reflect.Value, codes *[]kafka.Code) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); v.Type().Field(i).Name == "ErrorCode" {
				if code := kafka.Code(f.Int()); code != 0 && !slices.Contains(*codes, code) {
					*codes = append(*codes, code)
				}
			} else {
				collectCodes(f, codes)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				collectCodes(v.Index(i), codes)
			}
		}
	}
}

// codesOf is Codes as text, with a space before each.
func codesOf(resp kmsg.Response) string {
	s := ""
	for _, c := range Codes(resp) {
		s += " " + c.String()
	}
	return s
}
