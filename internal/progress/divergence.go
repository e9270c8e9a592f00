package progress

// A Lineage is the leader epochs of a log: EndOffsetFor returns the largest epoch that is not above
// the given one, and where it ended: the start of the next, or the log's end. Both are -1 if none
// is known, or if epoch is above the newest.
type Lineage interface {
	EndOffsetFor(epoch int32) (known int32, end int64)
}

// A Divergence is a leader's word that a follower's log is not a prefix of its own: the leader's
// log has no records of epochs above Epoch, up to the one that was asked for, and those of Epoch
// end at End. Kafka: diverging epoch of a fetch answer (KIP-595).
type Divergence struct {
	Epoch int32
	End   int64
}

// Compare tells whether a follower that has records up to offset, the last of them of epoch last,
// holds a prefix of the leader's log. ok is false if the leader cannot tell: it does not know the
// epoch, so the follower has seen a newer leader.
func Compare(leader Lineage, last int32, offset int64) (d Divergence, diverges, ok bool) {
	if last < 0 || offset == 0 { // nothing that could differ
		return Divergence{}, false, true
	}
	epoch, end := leader.EndOffsetFor(last)
	switch {
	case epoch < 0:
		return Divergence{}, false, false
	case epoch < last || end < offset:
		return Divergence{Epoch: epoch, End: end}, true, true
	}
	return Divergence{}, false, true
}

// Cut returns where a follower whose log ends at end has to cut it off, so that it agrees with the
// leader; or at least comes closer: it asks again behind the cut. Behind d.End the leader has newer
// epochs than the follower, and behind the end of its own records of d.Epoch, or older ones, the
// follower has newer ones than the leader had there. It never cuts by a high watermark, which may
// be behind what the follower itself has acknowledged.
func Cut(own Lineage, end int64, d Divergence) int64 {
	to := min(d.End, end)
	if epoch, until := own.EndOffsetFor(d.Epoch); epoch >= 0 {
		to = min(to, until)
	}
	return to
}
