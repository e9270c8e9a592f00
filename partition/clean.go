package partition

import (
	"context"

	"github.com/stratalog/strata/log"
)

// Clean applies the topic's retention and compaction now and tells what went. Nothing at or above
// the high watermark goes, and of undecided transactions and known producers compaction keeps what
// is needed to go on. It blocks for the disk; appends and reads go on. Cancelling ctx ends a
// compaction.
func (p *Partition) Clean(ctx context.Context) (log.CleanReport, error) {
	if p.closing.Load() {
		return log.CleanReport{}, p.wrap("clean", ErrClosed)
	}
	report, err := p.log.Clean(ctx)
	if err != nil {
		return report, p.wrap("clean", err)
	}
	return report, nil
}

// Retain is Clean without compaction.
func (p *Partition) Retain(ctx context.Context) (log.CleanReport, error) {
	if p.closing.Load() {
		return log.CleanReport{}, p.wrap("clean", ErrClosed)
	}
	report, err := p.log.Retain(ctx)
	if err != nil {
		return report, p.wrap("clean", err)
	}
	return report, nil
}

// Roll closes the active segment, if it holds anything, and opens the next one: what is closed can
// be compacted, and goes with its age. It blocks for the disk.
func (p *Partition) Roll() error {
	if p.closing.Load() {
		return p.wrap("roll", ErrClosed)
	}
	if err := p.log.Roll(); err != nil {
		return p.wrap("roll", err)
	}
	return nil
}

// Recovery tells what Open had to repair in the log.
func (p *Partition) Recovery() log.RecoveryReport { return p.log.Recovery() }
