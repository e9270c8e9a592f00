package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/schema"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramReadsOldAndNewRecordsOfEachFormat(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(t.Context(), &b))
	for _, want := range []string{
		`o-1  1250 cents EUR  25 bytes: {"id":"o-1","cents":1250}`,
		`o-2  990 cents SEK  41 bytes: {"id":"o-2","cents":990,"currency":"SEK"}`,
		"o-3  refused: record: decode json-0 at offset 2: json: ",
		// magic byte and id; then length and id, cents
		"o-1  1250 cents EUR  11 bytes: 0000000001 066f2d31c413",
		"o-2  990 cents SEK  15 bytes: 0000000002 066f2d32bc0f0653454b",
		"o-3  refused: record: decode avro-0 at offset 2: schema: no schema id: first byte is 0x7b instead of 0",
		// the same, then the message's index, then fields after their tags
		"o-1  1250 cents EUR  14 bytes: 0000000003 000a036f2d3110c413",
		"o-2  990 cents SEK  19 bytes: 0000000004 000a036f2d3210bc0f1a0353454b",
		"avro-value has schemas [1 2]",
		"rejected before any record is written",
	} {
		require.Contains(t, b.String(), want)
	}
}

// The bytes of the formats' own specifications, so that other programs can read Strata's.
func TestEncodingsAreThoseOfAvroAndProtobuf(t *testing.T) {
	// Avro 1.12, strings.
	require.Equal(t, "\x06foo", string(appendAvroString(nil, "foo")))
	// Protocol Buffers, encoding.
	require.Equal(t, "\x12\x07testing", string(appendProtobufString(nil, 2, "testing")))
	p, err := avroEncode(avroToday)(order{ID: "", Cents: -65, Currency: "x"})
	require.NoError(t, err)
	require.Equal(t, "\x00\x81\x01\x02x", string(p), "Avro 1.12, long -65 is 81 01")
	o, err := protobufDecode([]byte("\x08\x96\x01\x10\x81\x01\x22\x02??\x0a\x01a"))
	require.NoError(t, err, "fields that are not known are skipped")
	require.Equal(t, order{ID: "a", Cents: -65, Currency: "EUR"}, o)
}

func TestDamagedValuesAreErrors(t *testing.T) {
	whole, err := avroEncode(avroToday)(orders[1])
	require.NoError(t, err)
	for cut := range whole {
		_, err := avroDecode(avroToday, whole[:cut])
		require.ErrorIs(t, err, errAvro)
	}
	_, err = avroDecode(avroToday, append(whole, 0))
	require.ErrorIs(t, err, errAvro)
	for _, p := range []string{"\x0a", "\x0a\x05abc", "\x0a\xff", "\x0d\x01", "\xff"} {
		_, err := protobufDecode([]byte(p))
		require.ErrorIs(t, err, errProtobuf, "%q", p)
	}
}

func TestRegistryTakesFieldsWithADefaultOnly(t *testing.T) {
	s := func(text string) schema.Schema { return schema.Schema{Type: schema.Avro, Text: text} }
	require.NoError(t, onlyOptionalFieldsAreAdded("", s(avroLastYear), s(avroToday)))
	require.ErrorIs(t, onlyOptionalFieldsAreAdded("", s(avroToday), s(avroLastYear)), errBreaks)
	require.ErrorIs(t, onlyOptionalFieldsAreAdded("", s(avroLastYear), s(avroRenamed)), errBreaks)
	required := strings.Replace(avroToday, `,"default":"EUR"`, "", 1)
	require.ErrorIs(t, onlyOptionalFieldsAreAdded("", s(avroLastYear), s(required)), errBreaks)
}
