package main

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// spelling turns Go's names of APIs into Kafka's.
var spelling = strings.NewReplacer("ACLs", "Acls", "AlterPartitionAssignments", "AlterPartitionReassignments", "ProducerID", "ProducerId", "SASL", "Sasl", "SCRAM", "Scram")

// apis returns the page of the APIs that a server serves, with their versions.
func apis() string {
	var b strings.Builder
	b.WriteString("# APIs of the wire protocol\n" + generated + `
A server answers these APIs, in the versions that Apache Kafka 4.3 serves. ` + "`kafka.Config.VersionCaps`" + ` lowers the
versions. GetTelemetrySubscriptions and PushTelemetry need a ` + "`kafka.Config.Telemetry`" + `. APIs between a controller and its
brokers are not served, because they are calls inside the process. AlterReplicaLogDirs, UnregisterBroker, AddRaftVoter
and RemoveRaftVoter are not served either.

| key | API | versions |
|--:|---|---|
`)
	for key := range int16(kmsg.MaxKey + 1) {
		lowest, highest, served := kafka.ServedVersions(kafka.Key(key))
		if !served {
			continue
		}
		versions := number(int64(lowest))
		if highest > lowest {
			versions += " to " + number(int64(highest))
		}
		row(&b, number(int64(key)), spelling.Replace(kmsg.NameForKey(key)), versions)
	}
	return b.String()
}
