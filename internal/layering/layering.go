// Package layering holds the order of the module's packages and a test that keeps the imports in it.
//
// A package may import only packages of lower rows. The picture is the first section of docs/design.md.
package layering

// Rows lists the packages from the bottom up, as paths below the module; "" is the module's root.
// Packages of one row do not import each other. internal/* packages that are not listed stand below every row
// and import nothing of ours but each other.
var Rows = [][]string{
	{"record", "vfs"},
	{"segment"},
	{"log"},
	{"partition"},
	{"topic"},
	{"replication"},
	{"group"},
	{"producer"},
	{"consumer"},
	{""},
	{"kafka"},
	{"kafkatest"},
}
