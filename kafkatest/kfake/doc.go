// Package kfake has the exported API of franz-go's github.com/twmb/franz-go/pkg/kfake over
// kafkatest: a test switches by its import path, and meets a broker that stores, replicates and
// answers as Kafka does.
//
//	import "github.com/stratalog/strata/kafkatest/kfake" // was: github.com/twmb/franz-go/pkg/kfake
//
//	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(6, "orders"))
//	defer c.Close()
//	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
//		return nil, errors.New("cut"), true // the first produce request loses its connection
//	})
//
// New tests are better off with package kafkatest, which says in one Fault what takes a control
// function here, waits for what a test waits for, and fails the test when it leaves something
// behind.
//
// # Promises
//
//   - Every exported name of kfake is here, with its signature. What it does is what kfake's own
//     tests ask of it: they run against this package (interop, TestKfakesOwnTests), but for a list
//     with a reason for each.
//   - Nodes count from 0, and that is what clients and tests read and write everywhere.
//   - An option that is not supported is an error of NewCluster, never ignored.
//
// # Deviations
//
// Behind the API is a broker that does as Apache Kafka 4.3. Where kfake differs from that, so does
// it from this package: compacted topics want keys, records' timestamps bounds, and what is deleted
// goes by whole segments. EndTxn is answered as by kfake, when the transaction's markers are
// written: Kafka answers when the outcome is decided. Besides:
//
//   - A leader has a replica: MoveTopicPartition to a node without one moves the last replica
//     there. Moving to the node that leads changes nothing, not the epoch either.
//   - Every replica in sync serves fetches, SetFollowers says where replicas are.
//   - The coordinator of a group and of a transactional id of the same name may be different nodes.
//   - Any mechanism does for a user of PLAIN, and PLAIN for any user. A cluster with users and
//     EnableACLs has SASL without EnableSASL, too: else nobody could say who they are.
//   - Requests about ACLs are SECURITY_DISABLED without EnableACLs.
//   - BrokerConfigs takes the settings that the brokers go by; others are an error.
//   - Not served, as with Kafka's own tools: AlterReplicaLogDirs, telemetry.
//   - What a Fault's Resource names is served, and the error put in its place.
//   - A DataDir holds Strata's format. One process at a time, and one cluster, has it open.
//   - Control functions hold up their own connection, and requests that there are control functions
//     for, not the whole cluster.
package kfake
