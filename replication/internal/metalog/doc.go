// Package metalog implements the controller's log, __cluster_metadata-0, with one copy on each
// broker. A copy is an ordinary log whose records are those of package metarecord. Every change is
// one batch, or a transaction of several, so it happens completely or not at all. It is committed
// when it is durable on all copies that are in sync. That set shrinks and grows by changes of its
// own. The leader epoch of the log is the controller epoch.
//
// The rules of package controller determine how many copies are enough, and which of them is
// authoritative; this package applies them to files. It identifies brokers only by their ids. Its
// caller fences and closes brokers (Config.Fenced), and supplies the changes to write.
//
//	Place, Copy        the location of a broker's copy, and the copy
//	TakeOver           one of the brokers becomes controller: Open, Reopen
//	Log.Commit         a change, on all copies; copies that fail are removed from the set
//	Log.Join, TakeOut  add a copy, or remove one
//	Log.Snapshot       keeps the log short
package metalog
