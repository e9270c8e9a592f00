// Command service is a web service with its event log inside. It accepts orders by HTTP, a group of
// the same process charges them, a health check looks at the disk, and other programs read the
// orders as Kafka clients. It stops in order, and starts again on the same directory.
//
//	go run ./examples/service [-dir DIR]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func main() {
	dir := flag.String("dir", "", "directory of the cluster (default: a temporary directory)")
	flag.Parse()
	if err := run(context.Background(), *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run starts the service twice, and sends it orders.
func run(ctx context.Context, dir string, w io.Writer) error {
	if dir == "" {
		temp, err := os.MkdirTemp("", "strata-service-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	for _, orders := range [][]string{{"shirt", "hat"}, {"socks"}} {
		s, err := start(ctx, filepath.Join(dir, "data"))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "started; Kafka clients connect to %s\n", s.addr)
		for _, o := range orders {
			fmt.Fprintf(w, "POST /orders %s: %s\n", o, call(s.routes(), "POST", "/orders", o))
		}
		fmt.Fprintf(w, "GET /health: %s\n", call(s.routes(), "GET", "/health", ""))
		for range orders {
			fmt.Fprintf(w, "  billing has charged %s\n", <-s.charged)
		}
		if err := s.stop(); err != nil {
			return err
		}
		fmt.Fprintln(w, "stopped")
	}
	return nil
}

type service struct {
	cluster *strata.Cluster
	server  *kafka.Server      // for other programs
	addr    net.Addr           // where it listens
	orders  *producer.Producer // of the HTTP handlers
	billing *consumer.Consumer // charges orders

	leave   context.CancelFunc // ends Run of billing
	left    chan error         // its result
	charged chan string        // the orders in turn
}

// start opens the cluster in dir and starts all that uses it.
func start(ctx context.Context, dir string) (_ *service, err error) {
	s := &service{left: make(chan error, 1), charged: make(chan string)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	// The zero settings are durable: an acknowledged order survives a power cut.
	if s.cluster, err = strata.Open(strata.Config{Dir: dir}); err != nil {
		return nil, err
	}
	keep := topic.Config{Partitions: 6, Properties: map[string]string{"retention.ms": "-1"}} // the default is seven days
	if err = s.cluster.EnsureTopic(ctx, "orders", keep); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = ln.Addr()
	s.server = kafka.NewServer(s.cluster, kafka.Config{})
	go s.server.Serve(s.cluster.Controller(), ln) // ends in close
	if s.orders, err = producer.New(s.cluster, producer.Config{}); err != nil {
		return nil, err
	}
	if s.billing, err = consumer.New(s.cluster, consumer.Config{Group: "billing", Topics: []string{"orders"}}); err != nil {
		return nil, err
	}
	ctx, s.leave = context.WithCancel(ctx)
	go func() { s.left <- s.billing.Run(ctx, s.charge, consumer.RunConfig{}) }()
	return s, nil
}

// charge handles an order at least once: its offset is committed after charge has returned nil.
func (s *service) charge(ctx context.Context, r record.Record) error {
	select {
	case s.charged <- string(r.Value):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		order, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, err = s.orders.Send(r.Context(), record.Record{Topic: "orders", Key: order, Value: order})
		if err != nil { // nothing is lost in silence: the client tries again
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if err := s.cluster.Healthy(r.Context()); err != nil { // a full disk, damage, a broker that is down
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// stop ends the group's work, which commits the handled orders, and closes the rest.
func (s *service) stop() error {
	s.leave()
	return errors.Join(<-s.left, s.close())
}

// close closes the parts in the reverse order of start.
func (s *service) close() (err error) {
	if s.billing != nil {
		err = errors.Join(err, s.billing.Close())
	}
	if s.orders != nil {
		err = errors.Join(err, s.orders.Close()) // sends buffered records
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return err
}

// call sends a request to the service, without a socket, and returns the status.
func call(h http.Handler, method, path, body string) string {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	return answer.Result().Status
}
