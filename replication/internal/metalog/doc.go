// Package metalog is the controller's log, __cluster_metadata-0: logs like any other whose records
// are those of package metarecord, one copy on each broker. Every change is one batch, or a
// transaction of several, so it happens wholly or not at all, and is committed when it is durable
// on all copies that are in sync. That set shrinks, and grows, by a change of its own. The leader
// epoch of the log is the controller's epoch.
//
// Which copies are enough to go on, and which of them is to be gone by, is decided by the rules of
// package controller; this package does what they say to files. It knows brokers by their ids, and
// nothing of what they serve: whoever uses it fences and closes them (Config.Fenced), and decides
// what is written.
//
//	Place, Copy        where a broker's copy is, and the copy
//	TakeOver           one of the brokers becomes controller: Open, Reopen
//	Log.Commit         a change, on all copies; copies that fail are taken out of the set
//	Log.Join, TakeOut  a copy more, or fewer
//	Log.Snapshot       the log is kept short
package metalog
