// Package apache obtains Apache Kafka from Maven and runs its broker, its command-line tools
// and programs against its Java client.
//
// It needs Java 17 or later and Maven. The jars stay in Maven's own repository; where they are is
// kept in the user's cache directory. Everything runs on the loopback interface only.
package apache
