// Package controller holds the rules by which the copies of the metadata log make one log: which of
// them count, when there are enough of them, and where they part. It only computes.
//
// # The rules
//
// A change is committed when it is durable on every copy of the in-sync set. The set is part of the
// metadata: it changes by a record that is committed like any other, on every copy of the new set.
//
//   - A change of the set keeps at least half of the one in force, and of those that were tried in
//     vain since (MayBecome). A larger loss stops all changes.
//   - A controller takes over with the newest of the copies that it can reach, if these are a
//     majority of the set that the newest names (Enough). It makes its epoch, one higher than any
//     it has seen, durable on all of them before it writes in it. So no two controllers write in
//     the same epoch, and copies that differ have different epochs where they part (Part).
//   - As long as no copy names a set, the cluster is not complete yet: all its brokers are
//     needed, and they are the set in force.
//
// # Why nothing that is committed is lost
//
// Let S be the set that the newest reachable copy names, and R the reachable copies of it, more
// than half of S. If S is the set in force, R holds a copy of it, and each has all that is
// committed. If it is not, some controller committed a change from S to S' that no copy of R knows.
// But S' has at least half of S, or all of it if it grew, and R more than half, so they have a copy
// in common, which had made the change durable: a contradiction.
package controller

import (
	"cmp"
	"slices"
)

// A Copy is how far a broker's copy of the metadata log goes.
type Copy struct {
	Broker int32
	Epoch  int32 // the newest of its leader epochs, -1: none
	End    int64
}

// Newest returns the copy that a controller takes over with: the one with the newest epoch, of
// several the longest, of several that of the lowest broker. There must be one.
func Newest(copies []Copy) Copy {
	return slices.MaxFunc(copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.End, b.End), cmp.Compare(b.Broker, a.Broker))
	})
}

// Enough reports whether the brokers that can be reached are a majority of the set.
func Enough(set, reachable []int32) bool {
	n := 0
	for _, id := range set {
		if slices.Contains(reachable, id) {
			n++
		}
	}
	return 2*n > len(set)
}

// MayBecome reports whether next may be the set: it must have half of each of those that a copy may
// name, which are the one in force and those that were written since and not committed.
func MayBecome(next []int32, named ...[]int32) bool {
	for _, set := range named {
		kept := 0
		for _, id := range set {
			if slices.Contains(next, id) {
				kept++
			}
		}
		if 2*kept < len(set) {
			return false
		}
	}
	return len(next) > 0
}

// Epochs is what a copy knows of its leader epochs.
type Epochs interface {
	// Latest returns the newest epoch; ok is false if there is none.
	Latest() (epoch int32, ok bool)
	// EndOffsetFor returns the largest epoch that is not above the given one and where it ended;
	// both are -1 if there is none, or the given one is above the newest.
	EndOffsetFor(epoch int32) (int32, int64)
}

// Part returns the offset up to which a copy that ends at end has what the leader's has. The
// leader's newest epoch is not below the copy's.
func Part(leader, follower Epochs, end int64) int64 {
	epoch, ok := follower.Latest()
	if !ok {
		return end // nothing was ever written to it
	}
	for {
		known, leaderEnd := leader.EndOffsetFor(epoch)
		if known < 0 {
			return 0
		}
		own, ownEnd := follower.EndOffsetFor(known)
		switch {
		case own < 0:
			return 0
		case own == known:
			return min(leaderEnd, ownEnd, end)
		}
		epoch = own // the copy has no such epoch: what it has above its next lower one is not the leader's
	}
}
