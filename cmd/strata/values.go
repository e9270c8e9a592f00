package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stratalog/strata/record"
)

// data is a key or value. As text it is quoted, or base64:... if it is not UTF-8. As JSON it is a
// string, {"base64": "..."} or null.
type data []byte

func (d data) MarshalJSON() ([]byte, error) {
	switch {
	case d == nil:
		return []byte("null"), nil
	case utf8.Valid(d):
		return json.Marshal(string(d))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(d)})
}

func (d data) String() string {
	switch {
	case d == nil:
		return "null"
	case utf8.Valid(d):
		return strconv.Quote(string(d))
	}
	return "base64:" + base64.StdEncoding.EncodeToString(d)
}

// header is a record header.
type header struct {
	Key   string `json:"key"`
	Value data   `json:"value"`
}

func headersOf(hs []record.Header) []header {
	out := make([]header, 0, len(hs))
	for _, h := range hs {
		out = append(out, header{h.Key, h.Value})
	}
	return out
}

func headersText(hs []header) string {
	if len(hs) == 0 {
		return ""
	}
	var parts []string
	for _, h := range hs {
		parts = append(parts, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	return " headers " + strings.Join(parts, ",")
}

// timeText formats a timestamp in ms as UTC, and a negative one as "-".
func timeText(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
