// Package kafka serves a strata.Cluster over Kafka's wire protocol, so that Kafka clients of any
// language can produce, consume and administer. Go code in the same process needs no server: it
// uses packages producer and consumer with the Cluster. Tests of client code use package kafkatest.
//
//	cluster, _ := strata.Open(strata.Config{Dir: "data"})
//	server := kafka.NewServer(cluster, kafka.Config{})
//	ln, _ := net.Listen("tcp", "127.0.0.1:9092")
//	err := server.Serve(cluster.Controller(), ln)
//
// The package decodes requests, calls the layers below, and encodes responses. Each API has a file.
// The table in apis.go lists the APIs and versions that are served, and ApiVersions advertises
// exactly these. Responses and error codes are those of Apache Kafka 4.3.
//
// # Brokers
//
// ServeAll serves a cluster of several brokers, with a listener for each. A request for a
// partition, a group or a transactional id may reach the wrong broker. Then the response has an
// error, and in newer versions the id of the right broker. Any broker serves requests that read or
// change metadata.
//
// # Connections
//
// Requests of a connection are started and answered in the order of their arrival. Consecutive
// produce requests are pipelined. Any other request starts when all earlier ones have completed, as
// in Kafka. When a connection closes, its waiting requests end.
//
// # Limits
//
// Memory is allocated for received bytes, never for announced ones. See Limits for the bounds. An
// error on one connection does not affect others.
//
// # Security
//
// The Security of a listener, from the Config or a Listener, has TLS and SASL. The principal of a
// connection comes from SASL, or from the client certificate if there is no SASL. Users and their
// passwords belong to the cluster (strata.Cluster.SetPassword). Serve returns an error for a
// listener without authentication on an address that is not loopback, unless Config.AllowPublic is
// set.
//
// With Config.Authorization every request is checked against the cluster's access control lists
// (strata.Cluster.CreateACLs), by the rules of Kafka's StandardAuthorizer. A denied request gets an
// error, and no response has names that the client may not see.
package kafka
