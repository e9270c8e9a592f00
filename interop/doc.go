// Package interop checks Strata's server with the clients and tools that
// people use, and with Apache Kafka itself.
//
// Every check is a function of a bootstrap address. The same list runs against Strata (TestStrata),
// against Apache Kafka (TestApacheKafka: one in three, all with STRATA_LONG=1) and against any
// broker (TestBroker, with STRATA_INTEROP_BROKER=HOST:PORT), so a difference between them is a
// finding. Tests run beside each other, -parallel of them at a time: most wait. Those whose clients
// count time run alone: TestKafkasOwnTests, and the logins of security_test.go, which have five
// seconds.
//
// allow.txt says which checks pass against Strata; that list only grows. A check that is not
// expected to pass is in it with the reason.
//
// Apache Kafka's own tests run against `strata serve` (TestKafkasOwnTests, apache.txt, referee/),
// and those of franz-go's kfake against kafkatest/kfake (TestKfakesOwnTests, kfake.txt).
//
// Checks that need Java, Maven, Node, npm or kcat are skipped
// where those are missing, unless CI is set.
package interop
