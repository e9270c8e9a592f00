// Package journal is a file in which several logs of one directory make what they have appended
// durable with one sync.
//
// The logs' own files are written first, without a sync; the journal gets the same bytes once more,
// with the place they belong to. When that is on stable storage the appends may be acknowledged.
// The files are synced later, in the background and in bulk, and the journal's space is used again.
// After a crash Load returns what the journal holds, and whoever owns the logs writes it to where
// it belongs.
//
// # Invariants
//
//   - A frame is the work of one sync. Append of frame n+1 begins after frame n is on stable
//     storage, so only the last one can be torn.
//   - The two halves of the file are used in turn. A half is written to again only after every
//     Holder with entries in it has said that its own files hold them on stable storage, and after
//     the half's first byte, zero, says so on stable storage as well.
//   - After a failed write, sync or Settle nothing is appended any more, and nothing is given free:
//     what the file holds stays.
//
// # Format (big endian)
//
//	file    header (4096 B, of which the rest is zeros) | half | half
//	header  magic "STRATAJL" (8 B) | version (4 B) | bytes of a half (8 B) | id (8 B, random) | witness (8 B, the caller's) |
//	        boot id (length 2 B, bytes) | xxhash64 of all before (8 B)
//	half    frames, each at a multiple of 512 B, numbered from 0; the first byte is 0 if the half is free
//	frame   magic "SJF1" (4 B) | bytes of the entries (4 B) | generation (8 B) | id of the file (8 B) | number (8 B) |
//	        entries | xxhash64 of all before (8 B)
//	entry   name (length 2 B, bytes) | tag (8 B) | base offset of the segment (8 B) | position in it (8 B) | bytes (length 4 B, bytes)
//
// A half's generation is higher by one than that of the other when it began to be used; frames of
// older generations behind a half's last frame are what is left of its earlier uses.
package journal
