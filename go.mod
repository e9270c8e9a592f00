module github.com/stratalog/strata

go 1.26.0

// The command is in this module, because go run ...@latest rejects a module with a replace line. An
// importer neither downloads its modules nor has them in go.sum. interop and bench have such a line,
// so they are modules of their own, without a go.work file, which would load them for every test.
require (
	github.com/anishathalye/porcupine v1.3.1 // tests: linearizability
	github.com/cespare/xxhash/v2 v2.3.0 // log, replication, topic: checksums of Strata's own files, the partitioner XXHash
	github.com/klauspost/compress v1.20.3 // record: gzip, snappy, zstd with pooled coders and bounded decoding
	github.com/pierrec/lz4/v4 v4.1.33 // record: lz4 frames, which klauspost/compress lacks
	github.com/spf13/cobra v1.10.2 // cmd/strata: commands, help, completion
	github.com/spf13/pflag v1.0.9 // cmd/strata: flags
	github.com/stretchr/testify v1.12.1 // tests: require
	github.com/twmb/franz-go v1.22.2 // remote, cmd/strata, kafkatest/kfake, tests: connections and logins, a client, kfake's types
	github.com/twmb/franz-go/pkg/kadm v1.19.0 // cmd/strata: a client for administration
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // kafka, remote, kafkatest, cmd/strata: wire messages, generated from Kafka's schemas
	golang.org/x/sync v0.24.0 // strata, share: errgroup
	golang.org/x/sys v0.49.0 // vfs, kafka: fdatasync, fallocate, flock, poll
	pgregory.net/rapid v1.3.0 // tests: models with shrinking
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
