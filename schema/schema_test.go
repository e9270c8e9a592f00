package schema_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/schema"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The bytes are the examples of Confluent's documentation: magic byte, id, and for Protobuf the
// message indexes as zigzag varints.
func TestWireFormatIsConfluents(t *testing.T) {
	require.Equal(t, "0000000001", hex.EncodeToString(schema.AppendFrame(nil, 1)))
	require.Equal(t, "007fffffff", hex.EncodeToString(schema.AppendFrame(nil, 1<<31-1)))
	for want, indexes := range map[string][]int{"00": {0}, "0202": {1}, "040200": {1, 0}, "04028002": {1, 128}, "0600020c": {0, 1, 6}} {
		p := schema.AppendIndexes(nil, indexes...)
		require.Equal(t, want, hex.EncodeToString(p))
		got, rest, err := schema.ParseIndexes(append(p, "rest"...))
		require.NoError(t, err)
		require.Equal(t, indexes, got)
		require.Equal(t, "rest", string(rest))
	}
	require.Equal(t, []byte{0}, schema.AppendIndexes(nil))
	got, rest, err := schema.ParseIndexes([]byte{2, 0, 9})
	require.NoError(t, err)
	require.Equal(t, []int{0}, got, "the long form of [0] is read, too")
	require.Equal(t, []byte{9}, rest)
	id, rest, err := schema.ParseFrame([]byte{0, 0, 1, 0, 0, 'x'})
	require.NoError(t, err)
	require.Equal(t, int32(1<<16), id)
	require.Equal(t, "x", string(rest))
}

func TestBytesWithoutAFrameAreRefused(t *testing.T) {
	for _, p := range []string{"", "\x00", "\x00\x00\x00\x00", `{"json":1}`, "\x01\x00\x00\x00\x01x"} {
		_, _, err := schema.ParseFrame([]byte(p))
		require.ErrorIs(t, err, schema.ErrNoFrame, "%q", p)
	}
	for _, p := range []string{"", "\x01", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x04\x02", "\x02\x01", "\xca\x01" + strings.Repeat("\x00", 101), "\xfe\xff\xff\xff\x0f"} {
		_, _, err := schema.ParseIndexes([]byte(p))
		require.ErrorIs(t, err, schema.ErrIndexes, "%q", p)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 4, 2, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		id, rest, err := schema.ParseFrame(p)
		if err != nil {
			return
		}
		indexes, rest, err := schema.ParseIndexes(rest)
		if err != nil {
			return
		}
		again := append(schema.AppendIndexes(schema.AppendFrame(nil, id), indexes...), rest...)
		gotID, tail, err := schema.ParseFrame(again)
		require.NoError(t, err)
		got, _, err := schema.ParseIndexes(tail)
		require.NoError(t, err)
		require.Equal(t, id, gotID)
		require.Equal(t, indexes, got)
	})
}

// counting is a registry that counts its requests, and fails while down is set.
type counting struct {
	schema.Memory
	mu    sync.Mutex
	asked []string
	down  error
}

func (c *counting) ask(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, what)
	return c.down
}

func (c *counting) Register(subject string, s schema.Schema) (int32, error) {
	if err := c.ask("register " + subject); err != nil {
		return 0, err
	}
	return c.Memory.Register(subject, s)
}

func (c *counting) Schema(id int32) (schema.Schema, error) {
	if err := c.ask(fmt.Sprint("schema ", id)); err != nil {
		return schema.Schema{}, err
	}
	return c.Memory.Schema(id)
}

func encode(v string) ([]byte, error) {
	if v == "" {
		return nil, nil
	}
	return []byte(v), nil
}

func TestValuesTravelWithTheIDOfTheirSchema(t *testing.T) {
	r := &counting{}
	v1, v2 := schema.Schema{Type: schema.Avro, Text: `"string"`}, schema.Schema{Type: schema.Protobuf, Text: "message V {}"}
	var old record.Serializer[string] = schema.Serializer(schema.Config{Registry: r, Schema: v1}, encode)
	var key record.Serializer[string] = schema.Serializer(schema.Config{Registry: r, Schema: v1, Subject: schema.TopicKey}, encode)
	var next record.Serializer[string] = schema.Serializer(schema.Config{Registry: r, Schema: v2, Indexes: []int{1}}, encode)
	read := schema.Decoder(r, func(w schema.Written) (string, error) {
		if string(w.Bytes) == "bad" {
			return "", errors.ErrUnsupported
		}
		return fmt.Sprintf("%d %s %v %s", w.ID, w.Schema.Type, w.Indexes, w.Bytes), nil
	})
	for range 3 {
		for i, write := range []record.Serializer[string]{old, next} {
			p, err := write("orders", "v")
			require.NoError(t, err)
			got, err := read(p)
			require.NoError(t, err)
			require.Equal(t, []string{"1 AVRO [] v", "2 PROTOBUF [1] v"}[i], got)
		}
		p, err := key("orders", "v")
		require.NoError(t, err)
		require.Equal(t, "\x00\x00\x00\x00\x01v", string(p), "a schema has one id under all subjects")
	}
	require.ElementsMatch(t, []string{"register orders-value", "register orders-value", "register orders-key", "schema 1", "schema 2"}, r.asked, "once each")
	require.Equal(t, []int32{1, 2}, r.Versions("orders-value"))

	p, err := old("orders", "")
	require.NoError(t, err)
	require.Nil(t, p, "a tombstone stays one")
	got, err := read(nil)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = read([]byte(`{"n":1}`))
	require.ErrorIs(t, err, schema.ErrNoFrame)
	_, err = read(schema.AppendFrame(nil, 77))
	require.ErrorIs(t, err, schema.ErrUnknown)
	require.ErrorContains(t, err, "77")
	_, err = read(schema.AppendFrame(nil, 2))
	require.ErrorIs(t, err, schema.ErrIndexes)
	_, err = read(append(schema.AppendFrame(nil, 1), "bad"...))
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestRegistryThatFailsIsAskedAgain(t *testing.T) {
	r := &counting{}
	write := schema.Serializer(schema.Config{Registry: r, Schema: schema.Schema{Type: schema.JSON, Text: "{}"}}, encode)
	read := schema.Decoder(r, func(w schema.Written) (string, error) { return string(w.Bytes), nil })
	r.down = errors.New("registry is away")
	_, err := write("orders", "v")
	require.ErrorIs(t, err, r.down)
	_, err = read(append(schema.AppendFrame(nil, 1), 'v'))
	require.ErrorIs(t, err, r.down)
	r.down = nil
	p, err := write("orders", "v")
	require.NoError(t, err)
	got, err := read(p)
	require.NoError(t, err)
	require.Equal(t, "v", got)
}

func TestIncompatibleSchemaIsRefused(t *testing.T) {
	r := &schema.Memory{Compatible: func(subject string, newest, next schema.Schema) error {
		if newest.Type != next.Type {
			return fmt.Errorf("%s instead of %s", next.Type, newest.Type)
		}
		return nil
	}}
	_, err := r.Register("orders-value", schema.Schema{Type: schema.Avro, Text: "1"})
	require.NoError(t, err)
	write := schema.Serializer(schema.Config{Registry: r, Schema: schema.Schema{Type: schema.JSON, Text: "{}"}}, encode)
	_, err = write("orders", "v")
	require.ErrorContains(t, err, "JSON instead of AVRO")
	_, err = write("payments", "v")
	require.NoError(t, err, "another subject")
	require.Equal(t, []int32{1}, r.Versions("orders-value"))
	id, err := r.Register("orders-value", schema.Schema{Type: schema.Avro, Text: "2"})
	require.NoError(t, err)
	require.Equal(t, int32(3), id)
}

func TestSerializersAndDecodersAreSafeForConcurrentUse(t *testing.T) {
	r := &schema.Memory{}
	write := schema.Serializer(schema.Config{Registry: r, Schema: schema.Schema{Type: schema.JSON, Text: "{}"}}, encode)
	read := schema.Decoder(r, func(w schema.Written) (string, error) { return string(w.Bytes), nil })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				p, err := write(fmt.Sprint("topic-", i%5), fmt.Sprint(g, i))
				if err != nil {
					t.Error(err)
				}
				if got, err := read(p); err != nil || got != fmt.Sprint(g, i) {
					t.Error(got, err)
				}
			}
		})
	}
	wg.Wait()
}
