package progress

// A Lineage is the leader epochs of a log. EndOffsetFor returns the largest epoch that is not above
// the given one, and its end: the start of the next epoch, or the log's end. Both are -1 if no such
// epoch is known, or if epoch is above the newest.
type Lineage interface {
	EndOffsetFor(epoch int32) (known int32, end int64)
}

// A Divergence reports that a follower's log is not a prefix of the leader's. Of the epochs up to
// the follower's last, Epoch is the newest in the leader's log, and its records end at End. Kafka:
// diverging epoch of a fetch response (KIP-595).
type Divergence struct {
	Epoch int32
	End   int64
}

// Compare reports whether the log of a follower, with end offset and last epoch given, diverges
// from the leader's. ok is false if the leader does not know the epoch: the follower has seen a
// newer leader.
func Compare(leader Lineage, last int32, offset int64) (d Divergence, diverges, ok bool) {
	if last < 0 || offset == 0 { // an empty log cannot differ
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

// Cut returns the offset at which a follower whose log ends at end truncates it. Repeated cuts make
// the log a prefix of the leader's: the follower fetches again after each. Beyond d.End the leader
// has newer epochs than the follower. Beyond the follower's own end of d.Epoch the follower has
// epochs that the leader does not have there. The high watermark plays no part: it may be below an
// offset that the follower has acknowledged.
func Cut(own Lineage, end int64, d Divergence) int64 {
	to := min(d.End, end)
	if epoch, until := own.EndOffsetFor(d.Epoch); epoch >= 0 {
		to = min(to, until)
	}
	return to
}
