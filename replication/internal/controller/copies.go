// Package controller implements the rules by which the copies of the metadata log form one log:
// which copies count, how many are required, and where two copies diverge. It only computes.
//
// # The rules
//
// A change is committed when it is durable on every copy of the in-sync set. The set is part of the
// metadata: it changes by a record that is committed like any other, on every copy of the new set.
//
//   - A change of the set keeps at least half of the set in force, and of the sets that were
//     written since but not committed (MayBecome). A larger loss stops all changes.
//   - A controller takes over with the newest copy that it can reach, by the epoch of its last
//     batch and then by its end. The reachable copies must be a majority of each set that may be in
//     force, as far as the newest copy shows: of the last set known to be committed, and of the
//     later sets that it names (Sets, Enough). The reachable members of all these sets are the
//     controller's first set, and its writes keep half of each.
//   - Before the controller writes, its epoch has begun on all of these copies. The epoch is higher
//     than any that ever began on a reachable copy. A copy keeps the record that an epoch began on
//     it through every truncation. So no two controllers write in the same epoch, and copies that
//     differ have different epochs where they diverge (Part).
//   - A change of the set is followed by an ordinary change, from which a copy shows that the set
//     was committed. A controller whose set was known to be committed already needs none.
//   - As long as no copy names a set, the cluster is not complete yet: all its brokers are
//     required, and they are the set in force.
//
// # Why no committed change is lost
//
// Let R be the reachable copies. The newest of R names a set S that is known to be committed, and
// possibly later sets, each of which may be committed or not. R has more than half of each of them.
// If one of them is in force, R contains a copy of it, and every such copy has all committed
// changes. Otherwise, some controller committed a change from one of them, S, to a set S' that no
// copy of R names. But S' has at least half of S, or all of it if it grew, and R has more than half
// of S. So S' and R have a copy in common, which had made the change durable: a contradiction.
//
// A majority of the last named set is not enough. A controller that dies while it writes S2 leaves
// S2 on one or two copies, which may be a majority of S2, while other copies of S continue without
// S2. Nor may a controller's first set be its reachable part of S2 alone, which can be less than
// half of S.
//
// An epoch that began on a copy, and in which nothing was written, is no evidence of the copy's
// content: a controller that died may have begun it on this copy only, while others continued
// without it. It counts for the choice of the next epoch, but not for the choice of the newest
// copy.
package controller

import (
	"cmp"
	"slices"
)

// A Copy is the end of a broker's copy of the metadata log.
type Copy struct {
	Broker int32
	Epoch  int32 // of its last batch; -1 if it has none
	End    int64
}

// Newest returns the copy with which a controller takes over: the one with the newest epoch, then
// the longest, then that with the lowest broker id. copies must not be empty.
func Newest(copies []Copy) Copy {
	return slices.MaxFunc(copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.End, b.End), cmp.Compare(b.Broker, a.Broker))
	})
}

// Enough reports whether the reachable brokers are a majority of each of the sets that may be in
// force.
func Enough(reachable []int32, sets ...[]int32) bool {
	for _, set := range sets {
		if 2*shared(set, reachable) <= len(set) {
			return false
		}
	}
	return len(sets) > 0
}

// MayBecome reports whether next may be the new set. It must have half of each set that a copy may
// name: of the sets that may be in force, and of the sets that were written since but not
// committed.
func MayBecome(next []int32, named ...[]int32) bool {
	for _, set := range named {
		if 2*shared(set, next) < len(set) {
			return false
		}
	}
	return len(next) > 0
}

// shared returns how many brokers of a set are among others.
func shared(set, others []int32) (n int) {
	for _, id := range set {
		if slices.Contains(others, id) {
			n++
		}
	}
	return n
}

// Epochs has the leader epochs of a copy.
type Epochs interface {
	// EndOffsetFor returns the largest epoch that is not above the given one, and its end. Both are
	// -1 if there is none, or if the given epoch is above the newest.
	EndOffsetFor(epoch int32) (int32, int64)
}

// Part returns the offset up to which a copy agrees with the leader's, which is newer. Epochs of
// the copy in which nothing was written do not count.
func Part(leader, follower Epochs, c Copy) int64 {
	epoch, end := c.Epoch, c.End
	if epoch < 0 {
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
		// The copy lacks this epoch: its records above its next lower one are not the leader's.
		epoch = own
	}
}
