package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// portableExamples are the examples with -kafka, and the parts of their output that differ from
// run to run. Without such parts the output is the same in the process and elsewhere.
var portableExamples = map[string][]string{
	"confirm":      {number, timesPerBatch, `on stable storage|in the leader's log`},
	"delivery":     {`(?m)^  acknowledged by all, retried +0 +[12]\d$`},
	"exactlyonce":  {`(?m)^(  kill [^\n]*\n)+`, `(?m)^  ([dCA]+ ?)+$`, number, `[+-]~`},
	"groups":       {`\b(ann|bob|cleo|dan|eve)\b( +[a-z]+-\d)*`, `idle`, number},
	"grow":         nil,
	"jobs":         {number, `#+`},
	"ordering":     {`\b[ab]\d+\b( [ab]\d+\b)*`, `in a's order: (true|false)\n\n`},
	"outbox":       {`(?m)^  \d+ rows, \d+ events; [1-9]\d* rows without an event, 0 events too many$`},
	"partitioners": {`(?m)^  \d \|[ \d]*$`},
	"quickstart":   {`( *(ann|bob|cleo)[^\n]*\n)+`, `(?m)( +\d+){2}$`, `are on stable storage|are acknowledged`},
	"readers":      {number, `[=#]+`},
	"repartition":  nil,
	"timetravel":   nil,
	"workers":      {number, `mails-[^\n]*`},
}

const (
	number        = `\d+(\.\d+)?`
	timesPerBatch = `(?m) +$`
)

var (
	suffixOfNames = regexp.MustCompile(`-[0-9a-f]{8}\b`) // of topics and groups elsewhere
	blanks        = regexp.MustCompile(` +`)             // tables are as wide as their numbers
)

// TestExamplesPrintTheSameElsewhere runs each example with its cluster in the process, and with one
// elsewhere: the broker at STRATA_INTEROP_BROKER, a real Kafka with STRATA_LONG, or Strata.
func TestExamplesPrintTheSameElsewhere(t *testing.T) {
	t.Parallel()
	var k target
	switch addr := os.Getenv("STRATA_INTEROP_BROKER"); {
	case addr != "":
		k = target{kind: "broker", addr: addr}
	case os.Getenv("STRATA_LONG") != "":
		k = startKafka(t)
		awaitCoordinators(t, k)
	default:
		k, _ = startStrata(t)
	}
	bin := t.TempDir()
	args := []string{"build", "-o", bin}
	for name := range portableExamples {
		args = append(args, "./examples/"+name)
	}
	build := exec.CommandContext(within(t), "go", args...)
	build.Dir = ".."
	run(t, build)
	for name, differ := range portableExamples {
		if name == "quickstart" && k.kind == "broker" {
			continue // its topic stays, and a second run would have nothing to count
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := func(args ...string) string {
				out, err := exec.CommandContext(within(t), filepath.Join(bin, name), args...).Output()
				require.NoError(t, err, "%s\n%s", out, stderrOf(err))
				text := suffixOfNames.ReplaceAllString(string(out), "")
				for _, d := range differ {
					text = regexp.MustCompile(d).ReplaceAllString(text, "~")
				}
				return blanks.ReplaceAllString(text, " ")
			}
			require.Equal(t, output(), output("-kafka", seeds(k)[0]))
		})
	}
}

func stderrOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return string(exit.Stderr)
	}
	return fmt.Sprint(err)
}
