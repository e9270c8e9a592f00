// Command formats shows encodings of values: JSON without a schema, and Avro and Protobuf in the
// wire format of Confluent's schema registry. Each topic gets one order from last year's program
// and one from today's, which adds a currency. One reader reads both.
//
//	go run ./examples/formats
//
// Strata is independent of formats: it takes two functions, to bytes and back. Package schema puts
// the id of a schema before the bytes. The Avro and Protobuf code here covers only the types of an
// order; an application uses the library of its choice.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/schema"
	"github.com/stratalog/strata/topic"
)

// order is an order in today's programs.
type order struct {
	ID       string `json:"id"`
	Cents    int64  `json:"cents"`
	Currency string `json:"currency,omitempty"` // new this year; before, everything was in euros
}

var orders = []order{{ID: "o-1", Cents: 1250}, {ID: "o-2", Cents: 990, Currency: "SEK"}}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "formats:", err)
		os.Exit(1)
	}
}

// format is an encoding of orders: last year's serializer, today's, and a reader of both.
type format struct {
	name      string
	old, next record.Serializer[order]
	read      func([]byte) (order, error)
}

func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	registry := &schema.Memory{Compatible: onlyOptionalFieldsAreAdded}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for _, f := range []format{plainJSON(), avro(registry), protobuf(registry)} {
		if err := cluster.CreateTopic(ctx, f.name, topic.Config{Partitions: 1}); err != nil {
			return err
		}
		if err := write(ctx, p, f); err != nil {
			return err
		}
		if err := read(ctx, cluster, out, f); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "registry:")
	for _, subject := range []string{"avro-value", "protobuf-value"} {
		fmt.Fprintf(out, "  %s has schemas %v\n", subject, registry.Versions(subject))
	}
	// A program that ignores the other readers of its topic.
	strict := schema.Serializer(schema.Config{Registry: registry, Schema: schema.Schema{Type: schema.Avro, Text: avroRenamed}}, avroEncode(avroRenamed))
	if _, err := strict("avro", orders[1]); !errors.Is(err, errBreaks) {
		return fmt.Errorf("the registry took a schema that breaks readers: %v", err)
	}
	_, err = fmt.Fprintln(out, "  a schema without a field that readers need is rejected before any record is written")
	return err
}

// write sends last year's order, today's, and one record of a program that knows neither format nor
// schema.
func write(ctx context.Context, p *producer.Producer, f format) error {
	for i, s := range []record.Serializer[order]{f.old, f.next} {
		if _, err := producer.NewTyped(p, record.SerializeString, s).Send(ctx, f.name, orders[i].ID, orders[i]); err != nil {
			return err
		}
	}
	_, err := p.Send(ctx, record.String(f.name, "o-3", `{"id":"o-3","cents":"7.00"}`))
	return err
}

// read reads a topic with one decoder, including records of older programs. A record that cannot be
// decoded does not stop it.
func read(ctx context.Context, cluster *strata.Cluster, out io.Writer, f format) error {
	fmt.Fprintf(out, "%s:\n", f.name)
	for r, err := range record.Decode(consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: f.name}), f.read) {
		switch {
		case r.Record.Topic == "":
			return err
		case err != nil:
			fmt.Fprintf(out, "  %-4s refused: %v\n", r.Record.Key, err)
		default:
			fmt.Fprintf(out, "  %-4s %d cents %-4s %d bytes: %s\n", r.Value.ID, r.Value.Cents, r.Value.Currency, len(r.Record.Value), shown(r.Record.Value))
		}
	}
	return nil
}

// shown is text, or the frame and the rest in hexadecimal.
func shown(p []byte) string {
	if p[0] == '{' {
		return string(p)
	}
	return hex.EncodeToString(p[:5]) + " " + hex.EncodeToString(p[5:])
}

// plainJSON needs no registry: every record has the names of its fields, and their meaning is
// agreed on elsewhere.
func plainJSON() format {
	return format{name: "json", old: record.SerializeJSON[order], next: record.SerializeJSON[order], read: func(p []byte) (order, error) {
		o := order{Currency: "EUR"}
		err := json.Unmarshal(p, &o)
		return o, err
	}}
}
