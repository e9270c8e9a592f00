// Package remote runs programs that are written against strata.Client on a cluster that is reached
// over a network: Apache Kafka from 0.11 on, Redpanda, or strata serve.
//
//	c, err := remote.Open(ctx, remote.Config{Brokers: []string{"kafka-1:9092"}})
//	p, err := producer.New(c, producer.Config{})
//	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
//
// Packages producer and consumer are the same as in one process, and so are their promises, except
// where the brokers decide: an acknowledged record is in the memory of the in-sync replicas (Kafka
// does not sync each write), and members of groups learn of a rebalance with their next heartbeat.
//
// # Connections
//
// Producers and calls of the Cluster share connections. Each consumer has connections of its own,
// since a broker responds to the requests of one connection in their order: a consumer that waits
// for records would hold up the others.
//
// # Errors
//
// A connection that is cut, a broker that does not respond and an election pass: producers and
// consumers repeat their requests, and return the cause when their own timeouts have passed. Errors
// that a repetition cannot resolve are returned at once: ErrNotAuthorized, ErrNotAuthenticated,
// ErrTLS, ErrNotKafka and ErrUnsupported. A request whose response was lost may have been applied.
package remote
