// Command prose counts phrases that make comments, error texts and documents hard to read.
//
//	go run ./internal/prose                  the counts of each directory
//	go run ./internal/prose -per             the same per 1,000 lines
//	go run ./internal/prose -list DIR...     each phrase in these directories, with its line
//	go run ./internal/prose -lower           lower the budget to the present counts
//
// There are four kinds of phrases:
//
//	headless  a clause in place of a noun: "what was read", "who waits", "that of the leader"
//	speech    code that speaks: "tells", "says", "asks"; better: returns, reports, sends, requests
//	nobody    nobody, somebody, anybody, everybody, whoever; better: the noun
//	odd       "anew", "but for", "goes on"; better: again, except, continues
//
// They are counted in comments of Go files that are not tests, again in the documentation of
// exported identifiers, in texts of errors, in other texts of commands, and in pages outside code
// blocks. The test of this package fails if a count exceeds the one in budget.txt. A new directory
// has a budget of 0. A phrase can be right in its place: a person asks. Then another phrase must
// go.
package main
