// Package journal implements a file with which several logs of one directory make their appends
// durable with one sync.
//
// The logs' own files are written first, without a sync. The journal gets the same bytes again,
// with their position. When the journal is on stable storage, the appends may be acknowledged. The
// files are synced later, in the background and in bulk, and the journal's space is reused. After a
// crash, Load returns the entries of the journal, and the owner of the logs writes them to their
// positions.
//
// # Invariants
//
//   - A frame has the entries of one sync. Append of frame n+1 begins after frame n is on stable
//     storage, so only the last frame can be torn.
//   - The two halves of the file are used in turn. Before a half is reused, every Holder with
//     entries in it must have its own files on stable storage. Then the half's first byte is set to
//     zero, also on stable storage.
//   - After a failed write, sync or Settle nothing is appended, and no half is freed: the file
//     keeps its frames.
//
// # Format (big endian)
//
//	file    header (4096 B, of which the rest is zeros) | half | half
//	header  magic "STRATAJL" (8 B) | version (4 B) | bytes of a half (8 B) | id (8 B, random) |
//	        witness (8 B, the caller's) | boot id (length 2 B, bytes) | xxhash64 of all before (8 B)
//	half    frames, each at a multiple of 512 B, numbered from 0; if it is free its first byte is 0
//	frame   magic "SJF1" (4 B) | bytes of the entries (4 B) | generation (8 B) |
//	        id of the file (8 B) | number (8 B) | entries | xxhash64 of all before (8 B)
//	entry   name (length 2 B, bytes) | tag (8 B) | base offset of the segment (8 B) |
//	        position in it (8 B) | bytes (length 4 B, bytes)
//
// A half's generation is one above the other half's generation at the time that its use began.
// Frames of older generations after a half's last frame are left from its earlier uses.
package journal
