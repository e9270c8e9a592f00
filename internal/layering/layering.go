// Package layering has the layers of the module's packages. Its test checks that imports follow
// them.
//
// A package may import only packages of lower rows. The picture
// is the first section of docs/explanation/design.md.
package layering

// Rows lists the packages from the bottom up, as paths below the module; "" is the module's root.
// Packages of one row do not import each other. internal/* packages that are not listed are below
// every row, and import only each other from this module. A package below another one's path has
// its own row.
var Rows = [][]string{
	{"acl", "record", "schema", "vfs"},
	{"internal/segment"},
	{"log/internal/manifest", "log/internal/compact", "log/internal/journal"},
	{"log/internal/recovery"},
	{"log"},
	{"log/internal/explore"}, // of log's tests
	{"partition"},
	{"topic", "replication/internal/controller", "replication/internal/election", "replication/internal/follow", "replication/internal/quota", "replication/internal/byid", "replication/internal/silence"},
	{"replication/internal/image"},
	{"replication/internal/metalog"},
	{"replication"},
	{"internal/coordinator", "internal/shardtopic"},
	{"internal/kafkatopic"}, // of tests
	{"group/assignor", "internal/offsets", "internal/txnlog"},
	{"kafkadir"},
	{"group/internal/compacted"}, // of tests
	{"group/internal/protocol"},
	{"group/internal/history"},
	{"group/internal/classic", "transaction/internal/lifecycle"},
	{"group/internal/modern"},
	{"group/internal/sharing", "group/internal/streaming"},
	{"group/internal/kinds"},
	{"share/internal/inflight", "internal/sharelog"},
	{"share/internal/groupstate"},
	{"share"},
	{"group", "transaction"},
	{"producer"},
	{"consumer"},
	{"mirror"},
	{"remote/internal/link", "remote/internal/view"},
	{"", "remote"},
	{"kafka/internal/transport"},
	{"kafka"},
	{"internal/reference", "internal/wired", "kafkatest"}, // wired is of tests
	{"kafkatest/kfake"},
	{"cmd/internal/kafkafile"},
	{"cmd/internal/killloop", "cmd/internal/verify"},
	{"cmd/strata"},
}

// Pure lists the packages that have, with their imports in this module, no clock, lock, goroutine,
// channel, context or I/O.
var Pure = []string{"internal/machine", "internal/javahash", "log/internal/manifest", "log/internal/recovery", "internal/wire", "group/assignor", "internal/offsets", "group/internal/protocol", "group/internal/history", "group/internal/classic", "group/internal/modern", "group/internal/sharing", "group/internal/streaming", "group/internal/kinds", "internal/txnlog", "transaction/internal/lifecycle", "replication/internal/controller", "replication/internal/image", "replication/internal/election", "replication/internal/quota", "internal/metarecord", "internal/progress",
	"acl", "internal/clientquota", "internal/x500", "internal/scram", "internal/sasl",
	"share/internal/inflight", "internal/sharelog", "share/internal/groupstate"}
