package producer

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// value is a record with the number i as its value.
func value(topic string, i int) record.Record {
	return record.Record{Topic: topic, Value: fmt.Append(nil, i)}
}

// numbers returns the values of the records that value makes for [from, to).
func numbers(from, to int) []string {
	var s []string
	for i := from; i < to; i++ {
		s = append(s, fmt.Sprint(i))
	}
	return s
}
