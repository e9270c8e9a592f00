// Package kafka serves a strata.Cluster over Kafka's wire protocol: any Kafka client, of any
// language, can produce, consume and administer.
//
//	cluster, _ := strata.Open(strata.Config{Dir: "data"})
//	server := kafka.NewServer(cluster, kafka.Config{})
//	ln, _ := net.Listen("tcp", "127.0.0.1:9092")
//	err := server.Serve(cluster.Controller(), ln)
//
// The package decodes requests, calls the layers below, and encodes their answers; it decides
// nothing. Each API has a file. The table in apis.go says which APIs and versions are served, and
// ApiVersions advertises just these. Answers and error codes are those of Apache Kafka 4.3.
//
// # Brokers
//
// A cluster of several brokers is served by ServeAll, with a listener for each. A client that asks
// the wrong broker for a partition, a group or a transactional id is told so, and in newer versions
// which one is right. Requests that read or change metadata go to any broker.
//
// # Connections
//
// Requests of a connection are started in the order they came and answered in that order.
// Consecutive produce requests are pipelined; any other request starts when those before it have
// completed, as in Kafka. A connection that closes ends what it waits for.
//
// # Limits
//
// Memory follows the bytes received, never the bytes announced; see Limits for what is bounded and
// by how much. A fault on one connection harms no other.
//
// # Security
//
// A listener is secured as its Security says, that of the Config or of a Listener: with TLS, whose
// client certificates say who a connection acts for, and with SASL, by which it proves who it is.
// Users and their passwords are the cluster's (strata.Cluster.SetPassword). Serve refuses addresses
// that are not loopback on listeners that let in anybody, unless Config.AllowPublic is set.
//
// With Config.Authorization every request is held against the cluster's access control lists
// (strata.Cluster.CreateACLs), by the rules of Kafka's StandardAuthorizer: what a client has no
// right to is refused, and its answer names nothing that the client may not see.
package kafka
