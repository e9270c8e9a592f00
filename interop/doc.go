// Package interop checks Strata's server with common Kafka clients and tools, and compares it with
// Apache Kafka.
//
// Every check is a function of a bootstrap address. The same list runs against Strata (TestStrata),
// against Apache Kafka (TestApacheKafka: one in three, all with STRATA_LONG=1) and against any
// broker (TestBroker, with STRATA_INTEROP_BROKER=HOST:PORT). A difference between them is a
// finding. Tests run in parallel, up to -parallel at a time, since most of them wait. Tests whose
// clients depend on time run alone: TestKafkasOwnTests, and the logins of security_test.go, which
// have five seconds.
//
// allow.txt lists the checks that pass against Strata; that list only grows. A check that is not
// expected to pass is in it with the reason.
//
// Apache Kafka's own tests run against `strata serve` (TestKafkasOwnTests, apache.txt, referee/).
// The tests of franz-go's kfake run against kafkatest/kfake (TestKfakesOwnTests, kfake.txt).
//
// Checks that need Java, Maven, Node, npm or kcat are skipped where these are missing, unless CI is
// set.
package interop
