package log

// This file has no code. It argues the order of steps that several files of the package rely on.
// The order of the locks is in docs/locking.md.
//
// # The write token
//
// An append that finds the token held is queued. The holder leads it in its next round, or gives
// the token with that round to a worker of the syncer. Hence the queue is empty whenever the token
// is free. Every other operation that needs the token waits in writeToken.waiting, ahead of queued
// appends. It receives the token from the releasing goroutine, and the token is not free in
// between. Close acquires the token last and retires it.
//
// # A write
//
// The holder of the token, in this order:
//
//  1. writes the bytes to the file of the active segment;
//  2. publishes the segment's new end, then stores segments.end;
//  3. calls Owner.Written;
//  4. under SyncOnAck, syncs the file, or the journal with the same bytes;
//  5. stores durability.offset, calls Owner.Durable, wakes readers;
//  6. completes the appends.
//
// Each step is stored after the one before. A reader that loads an end therefore finds every byte
// below it.
//
// # A sync
//
// A sync reads, under durability.mu, first cuts, then end, then dirty and the active segment. A
// roll stores the longer list of segments and adds to dirty in one critical section of that mutex.
// Hence the end that the sync has read belongs to the segments that it has read. A truncation
// increments cuts before and after it shortens the log. A sync that began before the truncation
// finds another value afterwards and does not move the durable offset.
//
// # Readers
//
// Readers take neither the token nor a chanlock.Lock. They load segments.current, which is replaced
// and never changed, and acquire a segment by a counter. A removed segment's file is deleted when
// its last reader has released it. A goroutine that removes a listed segment keeps it acquired
// until the new list is stored, so a reader that cannot acquire one finds another list.
//
// A reader that waits for the end first increments followers.count and then loads the end. A writer
// first stores the end and then loads the count. Hence at least one of them sees the other.
//
// # Known gap
//
// Open without a Directory uses the log's state, whatever the marks beside the log are. If a Kafka
// broker has had the directory since, OpenDirectory, OpenReadOnly and PlanRecovery take that state
// for void, and Open does not. Rejecting such a log would be right. Setting its state aside would
// not, because the marks stay and would void the next state too.
