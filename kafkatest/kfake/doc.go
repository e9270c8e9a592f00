// Package kfake implements the exported API of franz-go's github.com/twmb/franz-go/pkg/kfake with
// the brokers of package kafkatest. Use it for existing tests of kfake: they change only the import
// path, and run against brokers that store, replicate and respond as Kafka does.
//
//	import "github.com/stratalog/strata/kafkatest/kfake" // was: github.com/twmb/franz-go/pkg/kfake
//
//	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(6, "orders"))
//	defer c.Close()
//	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
//		return nil, errors.New("cut"), true // the first produce request loses its connection
//	})
//
// New tests should use package kafkatest. One Fault there replaces a control function, it has waits
// for common conditions, and it fails a test that leaves goroutines behind.
//
// # Promises
//
//   - Every exported name of kfake is here, with its signature. Its behaviour passes kfake's own
//     tests, which run against this package (interop, TestKfakesOwnTests), except for a list with a
//     reason for each.
//   - Node ids count from 0, for clients and for tests.
//   - An option that is not supported is an error of NewCluster, and never ignored.
//
// # Deviations
//
// The brokers behave as Apache Kafka 4.3. Where kfake differs from Kafka it differs from this
// package too: compacted topics require keys, timestamps of records have bounds, and deletion
// removes whole segments. One exception: EndTxn is answered as in kfake, when the transaction's
// markers are written. Kafka answers when the outcome is decided. Further deviations from kfake:
//
//   - A leader must have a replica: MoveTopicPartition to a node without one moves the last replica
//     there. A move to the present leader changes nothing, not even the epoch.
//   - Every in-sync replica serves fetches. SetFollowers sets the nodes with replicas.
//   - The coordinators of a group and of a transactional id with the same name may differ.
//   - A PLAIN user may use any mechanism, and any user PLAIN. A cluster with users and EnableACLs
//     has SASL even without EnableSASL: otherwise no client could authenticate.
//   - Requests about ACLs return SECURITY_DISABLED without EnableACLs.
//   - BrokerConfigs accepts only the settings that the brokers use; others are an error.
//   - AlterReplicaLogDirs and telemetry are not served.
//   - The resource of a Fault's Resource is served before the error replaces its result.
//   - A DataDir has Strata's format. Only one cluster in one process can have it open.
//   - A control function delays its own connection, and requests with control functions, but not
//     the whole cluster.
package kfake
