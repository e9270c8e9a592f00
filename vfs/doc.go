// Package vfs is the file system interface of Strata. It has the operating system's file system,
// one in memory that can lose power, and wrappers that inject faults or permit only reads. Tests of
// crashes and disk errors use it; every package of Strata that stores files takes an FS.
//
// # Promises
//
//   - OS is a thin layer: one call of a method is one call of the system, and errors are the
//     system's.
//   - Mem behaves as OS does for every program that uses files only through vfs; package vfstest
//     checks both with the same tests.
//   - Data that File.Sync and SyncDir have confirmed survives every MemFS.Crash. Of all other
//     changes a crash leaves any mixture that a disk could leave: blocks, sizes and names, kept,
//     lost or torn. The same seed gives the same mixture.
//   - A Session ends as a killed process does: none of its later calls reaches the file system
//     below, and no call in progress confirms anything.
//   - The FS that ReadOnly returns rejects every change and shows the changes of others.
//   - No method waits while holding a lock, so all of it works in a testing/synctest bubble, with
//     delays in virtual time.
//
// # What survives what
//
//	                               process killed (Kill)   power cut (Crash)
//	written                        yes                     perhaps; 4 KiB blocks, or parts
//	written, Sync                  yes                     yes, if the file's name does
//	created, renamed, removed      yes                     perhaps, each by itself
//	the same and SyncDir           yes                     yes
//	written, Sync failed           yes                     no, not even if the next Sync succeeds
//	locks                          no                      no
//	BootID                         the same                another
//
// MemFS.PowerCut does in place, to one directory, what Crash does to a copy of the whole file
// system.
//
// # Crash exploration
//
// An Observer is called before every operation, without a lock held, so it can copy the file system
// there: one run of a program yields the state of a crash before each of its operations.
//
//	m.Observe(vfs.Observer{Before: func(e vfs.Event) {
//		for seed := range uint64(10) {
//			check(m.Crash(seed)) // reopens the log, which must have the acknowledged records
//		}
//	}})
package vfs
