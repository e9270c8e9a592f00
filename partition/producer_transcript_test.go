package partition

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// A stateScript runs commands on the producer state alone. Lines that begin with > are commands,
// the others their output.
type stateScript struct {
	s      *producers
	r      round
	queued []record.Batch // admitted in an open round
	inOpen bool
	end    int64 // log end offset
	hw     int64
	now    int64 // ms
}

func newStateScript() *stateScript {
	return &stateScript{s: newProducers(24 * time.Hour)}
}

// args parses words like "pid=1 epoch=0 seq=0 n=3 txn ts=5" into values and flags.
func (c *stateScript) args(words []string) (v map[string]int64, flags map[string]bool) {
	v, flags = map[string]int64{"n": 1, "ts": c.now}, map[string]bool{}
	for _, w := range words {
		if k, n, ok := strings.Cut(w, "="); ok {
			v[k], _ = strconv.ParseInt(n, 10, 64)
		} else {
			flags[w] = true
		}
	}
	return v, flags
}

func (c *stateScript) run(line string) string {
	words := strings.Fields(line)
	v, flags := c.args(words[1:])
	switch words[0] {
	case "produce":
		b := record.Batch{
			ProducerID: v["pid"], ProducerEpoch: int16(v["epoch"]), BaseSequence: int32(v["seq"]),
			LastOffsetDelta: int32(v["n"] - 1), RecordCount: int32(v["n"]), MaxTimestamp: v["ts"],
		}
		if flags["txn"] {
			b.Attributes |= 0x10
		}
		return c.produce(b)
	case "round":
		c.inOpen = true
		return "open"
	case "written", "refused":
		for i := range c.queued {
			if words[0] == "written" {
				c.write(&c.queued[i])
			}
		}
		c.queued, c.inOpen = nil, false
		c.r.reset()
		return fmt.Sprint("end ", c.end)
	case "back":
		last := len(c.queued) - 1
		c.r.drop(c.queued[last].ProducerID)
		c.queued = c.queued[:last]
		return "taken back"
	case "marker":
		m := marker{v["pid"], int16(v["epoch"]), int32(v["coordinator"]), c.end, c.now, flags["abort"], int16(v["version"])}
		if err := c.s.checkMarker(&c.r, m); err != nil {
			return short(err)
		}
		c.r.reset()
		txn, ok := c.s.mark(m, c.now)
		c.end++
		if !ok {
			return fmt.Sprintf("offset %d, nothing open", c.end-1)
		}
		return fmt.Sprintf("offset %d ends [%d,%d] stable %d aborted=%t", c.end-1, txn.first, txn.last, txn.lastStable, txn.aborted)
	case "hw":
		c.hw = v["to"]
		c.s.txns.advance(c.hw)
		return fmt.Sprint("stable ", c.s.txns.lastStable(c.hw))
	case "restart":
		fresh := newProducers(24 * time.Hour)
		if err := fresh.load(c.s.appendSnapshot(nil), c.now); err != nil {
			return short(err)
		}
		c.s = fresh
		return "restarted"
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err.Error()
		}
		c.now += d.Milliseconds()
		return fmt.Sprintf("now %d", c.now)
	case "state":
		var sb strings.Builder
		for _, p := range c.s.states() {
			fmt.Fprintf(&sb, "pid=%d epoch=%d seq=%d offset=%d coordinator=%d txn=%d window=%d\n", p.ProducerID, p.Epoch, p.LastSequence,
				p.LastOffset, p.CoordinatorEpoch, p.TxnFirstOffset, c.s.m[p.ProducerID].n)
		}
		return strings.TrimSuffix(sb.String(), "\n")
	}
	return "unknown command"
}

func (c *stateScript) produce(b record.Batch) string {
	dup, err := c.s.check(&c.r, &b, nil)
	switch {
	case errors.Is(err, errDuplicate):
		return fmt.Sprintf("duplicate of offset %d time %d", dup.baseOffset(), dup.timestamp)
	case err != nil:
		return short(err)
	case c.inOpen:
		c.queued = append(c.queued, b)
		return "admitted"
	}
	base := c.end
	c.write(&b)
	c.r.reset()
	return fmt.Sprint("offset ", base)
}

func (c *stateScript) write(b *record.Batch) {
	c.s.apply(b, c.end, c.now)
	c.end += int64(b.LastOffsetDelta) + 1
}

// short returns the name of an error's sentinel.
func short(err error) string {
	for name, target := range map[string]error{
		"OUT_OF_ORDER_SEQUENCE_NUMBER": ErrOutOfOrderSequence, "INVALID_PRODUCER_EPOCH": ErrInvalidProducerEpoch,
		"INVALID_TXN_STATE": ErrInvalidTxnState, "TRANSACTION_COORDINATOR_FENCED": ErrCoordinatorFenced, "retry in round": errRetryInRound,
	} {
		if errors.Is(err, target) {
			return name
		}
	}
	return "unexpected: " + err.Error()
}

func TestProducerStateTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/producer/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			c := newStateScript()
			for line := range strings.Lines(string(want)) {
				switch line = strings.TrimRight(line, "\n"); {
				case strings.HasPrefix(line, "> "):
					fmt.Fprintln(&got, line)
					if out := c.run(line[2:]); out != "" {
						fmt.Fprintln(&got, out)
					}
				case line == "" || strings.HasPrefix(line, "#"):
					fmt.Fprintln(&got, line)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
				return
			}
			require.Equal(t, string(want), got.String())
		})
	}
}
