package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// fieldsOfRecords are the JSON fields of a record in the output of consume.
var fieldsOfRecords = []string{"type", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "base64"}

// exactJSON rejects JSON that encoding/json accepts but reads differently from how it is written:
// a duplicate field, of which it takes the last, a field name in another case, and an unpaired
// surrogate, which it replaces by U+FFFD. p is valid JSON.
func exactJSON(p []byte) error {
	if err := surrogates(p); err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(p))
	in.UseNumber()
	return exactValue(in)
}

// exactValue reads one value.
func exactValue(in *json.Decoder) error {
	t, err := in.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		for in.More() {
			if err := exactValue(in); err != nil {
				return err
			}
		}
		_, err = in.Token()
	case json.Delim('{'):
		var names []string
		for in.More() {
			t, err := in.Token()
			if err != nil {
				return err
			}
			name, _ := t.(string)
			switch {
			case slices.Contains(names, name):
				return fmt.Errorf("duplicate field %q", name)
			case !slices.Contains(fieldsOfRecords, name):
				for _, of := range fieldsOfRecords {
					if strings.EqualFold(of, name) {
						return fmt.Errorf("unknown field %q: write %q", name, of)
					}
				}
			}
			names = append(names, name)
			if err := exactValue(in); err != nil {
				return err
			}
		}
		_, err = in.Token()
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// surrogates rejects \u escapes of unpaired surrogates. p is valid JSON, so a backslash is always
// inside a string.
func surrogates(p []byte) error {
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' {
			continue
		}
		high, low := escaped(p[i:]), rune(-1)
		switch {
		case high < 0xD800 || high > 0xDFFF:
			i++ // skip the next character, which may be a backslash
			continue
		case high < 0xDC00:
			low = escaped(p[i+len(`\u0000`):])
		}
		if low < 0xDC00 || low > 0xDFFF {
			return fmt.Errorf(`%s is an unpaired surrogate: write bytes that are not text as {"base64": ...}`, p[i:i+len(`\u0000`)])
		}
		i += len(`\u0000\u0000`) - 1
	}
	return nil
}

// escaped returns the code of the \u escape at the beginning of p, -1 if there is none.
func escaped(p []byte) rune {
	if len(p) < len(`\u0000`) || p[0] != '\\' || p[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range p[2:6] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}
