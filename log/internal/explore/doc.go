// Package explore looks for ways to make a log lose, invent or mix up records.
//
// A Script is a list of operations on a few logs of one file system, some of which kill the
// process, cut the power or make the disk fail. A seed generates one; as text it can be kept and
// run again. The run notes every fact it learns (submitted, acknowledged, synced, deleted ...) in a
// history, and copies the file system before each call that changes it. From every copy the logs
// are opened as after a kill or a power cut, also with a second crash within that recovery, and
// compared with what the history, as it was then, says must be there, may be there, and must not.
//
// A Script that fails is shrunk: operations are taken away for as long as it still fails.
//
// The package is for tests of package log. It runs in a testing/synctest bubble: time is virtual.
package explore
