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
//   - A controller takes over with the newest of the copies that it can reach, by the epoch of its
//     last batch and by its end, if these are a majority of each set that may be in force as far as
//     the newest can tell: of the last set that is known to be committed, and of those that it
//     names behind that (Sets, Enough). All of these sets that can be reached are its first set,
//     and what it writes keeps half of each.
//   - Before it writes, the epoch that it writes in has begun on all of them, and is higher than
//     any that ever began on a copy that can be reached. A copy never forgets that an epoch began
//     on it, whatever is cut off. So no two controllers write in the same epoch, and copies that
//     differ have different epochs where they part (Part).
//   - A change of the set is followed by an ordinary change, by which a copy knows that the set was
//     committed. A controller that names the set that was known already needs none.
//   - As long as no copy names a set, the cluster is not complete yet: all its brokers are needed,
//     and they are the set in force.
//
// # Why nothing that is committed is lost
//
// Let R be the reachable copies. The newest names a set S that is known to be committed, and
// perhaps others behind that, which may be committed or not. R has more than half of each of them.
// If one of them is in force, R holds a copy of it, and each has all that is committed. If none is,
// some controller committed a change from one of them, say S, to S' that no copy of R knows. But S'
// has at least half of S, or all of it if it grew, and R more than half, so they have a copy in
// common, which had made the change durable: a contradiction.
//
// A majority of the last set that is named is not enough: a controller that dies while it writes S2
// leaves it on a copy or two, which are perhaps a majority of it, while others of S go on without
// ever hearing of S2. Nor may the first set of a controller be what it reaches of S2 alone, which
// can be less than half of S.
//
// An epoch that began on a copy, and that nothing was written in, says nothing of what the copy
// has: a controller that died may have begun it on this copy only, while others went on without it.
// It counts when the next epoch is chosen, and not when the newest copy is looked for.
package controller

import (
	"cmp"
	"slices"
)

// A Copy is how far a broker's copy of the metadata log goes.
type Copy struct {
	Broker int32
	Epoch  int32 // of its last batch, -1: it has none
	End    int64
}

// Newest returns the copy that a controller takes over with: the one with the newest epoch, of
// several the longest, of several that of the lowest broker. There must be one.
func Newest(copies []Copy) Copy {
	return slices.MaxFunc(copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.End, b.End), cmp.Compare(b.Broker, a.Broker))
	})
}

// Enough reports whether the brokers that can be reached are a majority of each of the sets that
// may be in force.
func Enough(reachable []int32, sets ...[]int32) bool {
	for _, set := range sets {
		if 2*shared(set, reachable) <= len(set) {
			return false
		}
	}
	return len(sets) > 0
}

// MayBecome reports whether next may be the set: it must have half of each of those that a copy may
// name, which are those that may be in force and those that were written since and not committed.
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

// Epochs is what a copy knows of its leader epochs.
type Epochs interface {
	// EndOffsetFor returns the largest epoch that is not above the given one and where it ended;
	// both are -1 if there is none, or the given one is above the newest.
	EndOffsetFor(epoch int32) (int32, int64)
}

// Part returns the offset up to which a copy has what the leader's has, which is newer. Epochs of
// the copy that nothing was written in do not count.
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
		epoch = own // the copy has no such epoch: what it has above its next lower one is not the leader's
	}
}
