package partition

import (
	"context"

	"github.com/stratalog/strata/log"
)

// Clean applies the topic's retention and compaction now and reports the result. It removes nothing
// at or above the high watermark, and compaction keeps the records that undecided transactions and
// known producers need. It blocks for the disk; appends and reads continue. If ctx ends, compaction
// ends.
func (p *Partition) Clean(ctx context.Context) (log.CleanReport, error) {
	if p.closing.Load() {
		return log.CleanReport{}, p.wrap("clean", ErrClosed)
	}
	report, err := p.log.Clean(ctx)
	if err != nil {
		p.met(err)
		return report, p.wrap("clean", err)
	}
	return report, nil
}

// Preview returns the report that Clean would return now, as far as it is known before records are
// read, and changes nothing: see log.Log.Preview.
func (p *Partition) Preview() (log.CleanReport, error) {
	if p.closing.Load() {
		return log.CleanReport{}, p.wrap("preview", ErrClosed)
	}
	report, err := p.log.Preview()
	if err != nil {
		p.met(err)
		return report, p.wrap("preview", err)
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
		p.met(err)
		return report, p.wrap("clean", err)
	}
	return report, nil
}

// Roll closes the active segment, unless it is empty, and opens the next one. A closed segment can
// be compacted, and is removed by age. Roll blocks for the disk.
func (p *Partition) Roll() error {
	if p.closing.Load() {
		return p.wrap("roll", ErrClosed)
	}
	if err := p.log.Roll(); err != nil {
		p.met(err)
		return p.wrap("roll", err)
	}
	return nil
}

// Recovery returns the report of what Open found and repaired in the log.
func (p *Partition) Recovery() log.RecoveryReport { return p.log.Recovery() }
