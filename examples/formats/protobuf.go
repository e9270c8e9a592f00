package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stratalog/strata/schema"
)

const (
	protobufLastYear = `syntax = "proto3"; message Order { string id = 1; sint64 cents = 2; }`
	protobufToday    = `syntax = "proto3"; message Order { string id = 1; sint64 cents = 2; optional string currency = 3; }`
)

// protobuf writes orders as Protocol Buffers does: each field after its number, so that a reader
// finds known fields and skips others. The registry's id identifies the version; readers rarely
// need it.
func protobuf(r schema.Registry) format {
	with := func(text string) schema.Config {
		// Order is the first message
		return schema.Config{Registry: r, Schema: schema.Schema{Type: schema.Protobuf, Text: text}}
	}
	encode := func(o order) ([]byte, error) {
		p := appendProtobufString(nil, 1, o.ID)
		// sint64 is zigzag, as Go's varints are
		p = binary.AppendVarint(append(p, 2<<3|varintField), o.Cents)
		if o.Currency != "" {
			p = appendProtobufString(p, 3, o.Currency)
		}
		return p, nil
	}
	return format{
		name: "protobuf", old: schema.Serializer(with(protobufLastYear), encode), next: schema.Serializer(with(protobufToday), encode),
		read: schema.Decoder(r, func(w schema.Written) (order, error) {
			if len(w.Indexes) != 1 || w.Indexes[0] != 0 {
				return order{}, fmt.Errorf("message %v is no order", w.Indexes)
			}
			return protobufDecode(w.Bytes)
		}),
	}
}

// Wire types.
const (
	varintField = 0
	bytesField  = 2
)

func appendProtobufString(p []byte, field byte, s string) []byte {
	return append(binary.AppendUvarint(append(p, field<<3|bytesField), uint64(len(s))), s...)
}

var errProtobuf = errors.New("protobuf: value is damaged")

func protobufDecode(p []byte) (order, error) {
	o := order{Currency: "EUR"}
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 {
			return o, errProtobuf
		}
		value, m := binary.Uvarint(p[n:])
		if m <= 0 {
			return o, errProtobuf
		}
		p = p[n+m:]
		switch tag & 7 {
		case varintField:
			if tag>>3 == 2 {
				o.Cents = int64(value>>1) ^ -int64(value&1)
			}
			continue
		case bytesField:
			if value > uint64(len(p)) {
				return o, errProtobuf
			}
		default: // fixed32 and fixed64 are not for orders
			return o, fmt.Errorf("%w: wire type %d", errProtobuf, tag&7)
		}
		switch tag >> 3 {
		case 1:
			o.ID = string(p[:value])
		case 3:
			o.Currency = string(p[:value])
		}
		p = p[value:]
	}
	return o, nil
}
