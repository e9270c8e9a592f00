package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stratalog/strata/schema"
)

const (
	avroLastYear = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"cents","type":"long"}]}`
	avroToday    = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"cents","type":"long"},{"name":"currency","type":"string","default":"EUR"}]}`
	avroRenamed  = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"amount","type":"long"}]}`
)

// avro writes records of strings and longs as Apache Avro does: the fields in the order of the
// schema, without names or tags. A reader needs the schema that they were written with.
func avro(r schema.Registry) format {
	with := func(text string) schema.Config {
		return schema.Config{Registry: r, Schema: schema.Schema{Type: schema.Avro, Text: text}}
	}
	return format{
		name: "avro", old: schema.Serializer(with(avroLastYear), avroEncode(avroLastYear)), next: schema.Serializer(with(avroToday), avroEncode(avroToday)),
		read: schema.Decoder(r, func(w schema.Written) (order, error) { return avroDecode(w.Schema.Text, w.Bytes) }),
	}
}

// avroRecord is a schema of a record.
type avroRecord struct {
	Fields []struct {
		Name    string          `json:"name"`
		Type    string          `json:"type"`
		Default json.RawMessage `json:"default"`
	} `json:"fields"`
}

func avroEncode(text string) func(order) ([]byte, error) {
	return func(o order) ([]byte, error) {
		var s avroRecord
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return nil, err
		}
		var p []byte
		for _, f := range s.Fields {
			switch f.Name {
			case "id":
				p = appendAvroString(p, o.ID)
			case "cents", "amount":
				p = binary.AppendVarint(p, o.Cents)
			case "currency":
				p = appendAvroString(p, o.Currency)
			}
		}
		return p, nil
	}
}

func appendAvroString(p []byte, s string) []byte {
	return append(binary.AppendVarint(p, int64(len(s))), s...)
}

var errAvro = errors.New("avro: value does not follow its schema")

// avroDecode decodes a record that was written with the schema text. A field that is not in that
// schema has today's default.
func avroDecode(text string, p []byte) (order, error) {
	o := order{Currency: "EUR"}
	var s avroRecord
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return o, err
	}
	for _, f := range s.Fields {
		n, used := binary.Varint(p)
		if used <= 0 {
			return o, fmt.Errorf("%w: field %s", errAvro, f.Name)
		}
		if p = p[used:]; f.Type == "long" {
			o.Cents = n
			continue
		}
		if n < 0 || n > int64(len(p)) {
			return o, fmt.Errorf("%w: field %s has %d bytes", errAvro, f.Name, n)
		}
		switch f.Name {
		case "id":
			o.ID = string(p[:n])
		case "currency":
			o.Currency = string(p[:n])
		}
		p = p[n:]
	}
	if len(p) > 0 {
		return o, fmt.Errorf("%w: %d bytes are left", errAvro, len(p))
	}
	return o, nil
}

var errBreaks = errors.New("readers of the subject could not read it")

// onlyOptionalFieldsAreAdded is a registry's compatibility rule for Avro: readers with the newest
// schema can read records of the next one, and the reverse.
func onlyOptionalFieldsAreAdded(_ string, newest, next schema.Schema) error {
	if next.Type != schema.Avro {
		return nil
	}
	var from, to avroRecord
	if err := errors.Join(json.Unmarshal([]byte(newest.Text), &from), json.Unmarshal([]byte(next.Text), &to)); err != nil {
		return err
	}
	has := map[string]string{}
	for _, f := range to.Fields {
		has[f.Name] = f.Type
	}
	for _, f := range from.Fields {
		if has[f.Name] != f.Type {
			return fmt.Errorf("%w: field %s is missing or has another type", errBreaks, f.Name)
		}
		delete(has, f.Name)
	}
	for _, f := range to.Fields {
		if _, added := has[f.Name]; added && f.Default == nil {
			return fmt.Errorf("%w: field %s is new and has no default", errBreaks, f.Name)
		}
	}
	return nil
}
