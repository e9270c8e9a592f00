// Package kafka serves a strata.Cluster over Kafka's wire protocol: any Kafka client, of any language, can produce, consume and administer.
//
//	cluster, _ := strata.Open(strata.Config{Dir: "data"})
//	server := kafka.NewServer(cluster, kafka.Config{})
//	ln, _ := net.Listen("tcp", "127.0.0.1:9092")
//	err := server.Serve(cluster.Controller(), ln)
//
// The package decodes, calls the layers below, and encodes; it decides nothing. One file per API; apis.go has the table of what is served,
// which is also what ApiVersions advertises: what is not served is not advertised. Versions, answers and error codes are those of Apache Kafka 4.3.
//
// # Brokers
//
// A cluster of several brokers is served by ServeAll, with a listener for each. A client that asks a broker for what another one leads
// or coordinates is told so, and by newer versions where to go. What is in the metadata every broker knows, and can change.
//
// # Connections
//
// Requests of a connection are started in the order they came and answered in that order. Consecutive produce requests are pipelined; any other
// request starts when those before it have completed, as in Kafka. A connection that closes ends what it waits for.
//
// # Limits
//
// Memory follows the bytes received, never the bytes announced; see Limits for what is bounded and by how much. A fault on one connection
// harms no other. There is no authentication yet: Serve refuses addresses that are not loopback unless Config.AllowPublic is set.
package kafka
