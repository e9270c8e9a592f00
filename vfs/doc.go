// Package vfs is the file system as Strata sees it: the operating system's, one in memory that can
// lose power, and faults or read-only views of both.
//
// # Promises
//
//   - OS is a thin layer: one call here is one call of the system, and errors are the system's.
//   - Mem behaves as OS does for every program that does not look behind vfs; package vfstest
//     checks both with the same tests.
//   - What File.Sync and SyncDir have confirmed survives every MemFS.Crash. Of the rest a crash
//     leaves any mixture a disk could: blocks, sizes and names, kept, lost or torn. The same seed
//     gives the same mixture.
//   - A Session ends as a process does that is killed: nothing it does later reaches the file
//     system below, and no call of it that was under way confirms anything.
//   - What ReadOnly returns refuses every change and sees those of others.
//   - Nothing here waits while holding a lock, so all of it works in a testing/synctest bubble,
//     delays in virtual time.
//
// # What survives what
//
//	                               process killed (Kill)   power cut (Crash)
//	written                        yes                     perhaps, 4 KiB block by block, or a part of a block
//	written, Sync                  yes                     yes, if the file's name does
//	created, renamed, removed      yes                     perhaps, each by itself
//	the same and SyncDir           yes                     yes
//	written, Sync failed           yes                     no, not even if the next Sync succeeds
//	locks                          no                      no
//	BootID                         the same                another
//
// MemFS.PowerCut does to one directory, in place, what Crash does to a copy of all.
//
// # Crash exploration
//
// An Observer is called before every operation without a lock held, so it can copy the file system
// there and then: one run of a program yields the states of a crash at each of its operations.
//
//	m.Observe(vfs.Observer{Before: func(e vfs.Event) {
//		for seed := range uint64(10) {
//			check(m.Crash(seed)) // reopens the log and looks for what had been acknowledged
//		}
//	}})
package vfs
