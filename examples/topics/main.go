// Command topics shows why each kind of event has its own topic. Courier coordinates and order
// states first share one topic, then have one each. Kinds that share a topic share its retention,
// its settings and the work of its readers.
//
//	go run ./examples/topics
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	orders      = 200 // each followed by many coordinates
	coordinates = 80
	retention   = 2 << 20 // bytes of coordinates are enough: the last minutes
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "topics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	short := map[string]string{"retention.bytes": fmt.Sprint(retention), "segment.bytes": "1048576"}
	for name, properties := range map[string]map[string]string{
		"mixed":       short, // otherwise coordinates would fill the disk
		"coordinates": short,
		"orders":      {"retention.ms": "-1"},
	} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: 1, Properties: properties}); err != nil {
			return err
		}
	}
	for _, way := range []struct{ what, picture, orders, coordinates string }{
		{"One topic for both, with the short retention of coordinates:",
			"  mixed        deleted: o c c c c|c o c c c   kept: c c c o c|c c\n", "mixed", "mixed"},
		{"One topic each, with its own retention:",
			"  orders       kept: o o o o o|o o o\n  coordinates  deleted: c c c c c|c c c c c   kept: c c c c c|c c\n", "orders", "coordinates"},
	} {
		if err := send(ctx, cluster, way.orders, way.coordinates); err != nil {
			return err
		}
		if err := clean(ctx, cluster); err != nil {
			return err
		}
		read, found, err := readOrders(ctx, cluster, way.orders)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n\n%s\n", way.what, way.picture)
		fmt.Fprintf(out, "  %d orders were written; a reader of orders reads %d records and finds %d of them\n\n", orders, read, found)
	}
	_, err = fmt.Fprintln(out, "o is an order, c are coordinates, | ends a segment; retention deletes the oldest segments.\n"+
		"In one topic the coordinates push most orders out, and a reader of one kind reads both.")
	return err
}

// send writes order states, and after each the coordinates that couriers send meanwhile.
func send(ctx context.Context, cluster *strata.Cluster, ordersTopic, coordinatesTopic string) error {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	where := strings.Repeat("52.520008,13.404954;", 30) // a courier's last half minute
	for n := range orders {
		rs := []record.Record{record.String(ordersTopic, fmt.Sprint("order-", n), "paid")}
		for courier := range coordinates {
			rs = append(rs, record.String(coordinatesTopic, fmt.Sprint("courier-", courier), where))
		}
		if _, err := p.Send(ctx, rs...); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return p.Close()
}

// readOrders counts the records that a reader of orders has to read, and the orders among them.
func readOrders(ctx context.Context, cluster *strata.Cluster, name string) (read, found int, err error) {
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: name}) {
		if err != nil {
			return 0, 0, err
		}
		read++
		if strings.HasPrefix(string(r.Key), "order-") {
			found++
		}
	}
	return read, found, nil
}

// clean applies retention now; a cluster does it by itself every few minutes.
func clean(ctx context.Context, cluster *strata.Cluster) error {
	_, err := cluster.Clean(ctx)
	return err
}
