package topic

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A ValueType is the type of a setting's value. The names are Kafka's.
type ValueType string

const (
	TypeBoolean ValueType = "BOOLEAN" // true or false, in any case
	TypeInt     ValueType = "INT"     // 32 bits
	TypeLong    ValueType = "LONG"    // 64 bits
	TypeDouble  ValueType = "DOUBLE"
	TypeString  ValueType = "STRING"
	TypeList    ValueType = "LIST" // separated by commas; an empty text is the empty list
)

// value is a parsed value; only the field of its type is set.
type value struct {
	b bool
	n int64 // Int and Long
	f float64
	s string
	l []string
}

// parse reads text as t. The reason is for a ConfigError; "" means that it is well typed. Like
// Kafka it ignores blanks around the value.
func (t ValueType) parse(text string) (v value, reason string) {
	text = strings.TrimSpace(text)
	var err error
	switch t {
	case TypeBoolean:
		switch strings.ToLower(text) {
		case "true":
			v.b = true
		case "false":
		default:
			return v, "must be true or false"
		}
	case TypeInt:
		if v.n, err = strconv.ParseInt(text, 10, 32); err != nil {
			return v, "must be a 32-bit number"
		}
	case TypeLong:
		if v.n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return v, "must be a 64-bit number"
		}
	case TypeDouble:
		if v.f, err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(v.f) {
			return v, "must be a number"
		}
	case TypeList:
		v.l = SplitList(text)
	default:
		v.s = text
	}
	return v, ""
}

func (v value) equal(w value) bool {
	return v.b == w.b && v.n == w.n && v.f == w.f && v.s == w.s && slices.Equal(v.l, w.l)
}

// SplitList splits the text of a TypeList value at commas. Blanks around the parts are removed, and
// an empty text has no parts.
func SplitList(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
