package partition

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// A TruncatedError reports that an unclean election has truncated the log below a reader's offset.
// Records that the reader has from EndOffset on are lost; others may have their offsets. It matches
// ErrTruncated. Kafka: LogTruncationException.
type TruncatedError struct {
	record.TopicPartition
	Offset    int64 // of the fetch
	EndOffset int64 // offset where the log diverges from the records read, below Offset
	Epoch     int32 // leader epoch of the last record below EndOffset; -1: there is none
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%v: %s-%d at offset %d: the log diverges at offset %d", ErrTruncated, e.Topic, e.Partition, e.Offset, e.EndOffset)
}

// Is reports whether target is ErrTruncated.
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }

// CheckLastFetched returns a *TruncatedError if the log was truncated below offset since a reader
// read it up to there. epoch is the leader epoch of the reader's last record below offset, or a
// newer epoch of records that were read. A follower whose log is shorter than offset may only be
// behind, and returns nil. Kafka: Partition.readRecords, OffsetsForLeaderEpochUtils.
func (p *Partition) CheckLastFetched(epoch int32, offset int64) error {
	if offset < p.log.StartOffset() || p.leaderEpoch.Load() < 0 && offset > p.log.EndOffset() {
		return nil
	}
	known, end := p.EpochEnd(epoch)
	if known < 0 || end >= offset {
		return nil
	}
	return &TruncatedError{TopicPartition: p.tp, Offset: offset, EndOffset: end, Epoch: known}
}
