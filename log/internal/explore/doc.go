// Package explore searches for sequences of operations by which a log loses, invents or mixes up
// records.
//
// A Script is a list of operations on a few logs of one file system, some of which kill the
// process, cut the power or make the disk fail. A seed generates a script; its text can be kept and
// run again. The run records every fact (submitted, acknowledged, synced, deleted ...) in a
// history, and copies the file system before each call that changes it. The logs are opened from
// every copy as after a kill or a power failure, also with a second crash during that recovery.
// Their content is compared with the history as of the copy: with the records that must be there,
// may be there, and must not be there.
//
// A failing Script is shrunk: operations are removed for as long as it still fails.
//
// The package is for tests of package log. It runs in a testing/synctest bubble: time is virtual.
package explore
