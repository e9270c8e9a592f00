package log_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/log/internal/explore"
)

// Environment of TestExplore.
const (
	exploreForEnv    = "STRATA_EXPLORE_FOR"    // how long, as in 60s; otherwise a fixed number of scripts
	exploreSeedEnv   = "STRATA_EXPLORE_SEED"   // first seed; default 1
	exploreScriptEnv = "STRATA_EXPLORE_SCRIPT" // a file: only the script in it, thoroughly
)

// defaultScripts are explored when no time is given.
const defaultScripts = 2

// TestExplore runs random scripts of all operations of a log, with crashes at the calls they make:
// see package explore. A failing script is shrunk and printed. STRATA_EXPLORE_SCRIPT runs it
// again.
func TestExplore(t *testing.T) {
	if name := os.Getenv(exploreScriptEnv); name != "" {
		exploreFile(t, name, explore.Options{Every: 1, Kinds: len(explore.Crashes), Again: 3, Fail: 3})
		return
	}
	began, limit := time.Now(), time.Duration(0)
	if s := os.Getenv(exploreForEnv); s != "" {
		var err error
		limit, err = time.ParseDuration(s)
		require.NoError(t, err, exploreForEnv)
	}
	first := uint64(envInt(t, exploreSeedEnv, 1))
	var total explore.Report
	seed := first
	for ; limit == 0 && seed < first+uint64(log.Sampled(defaultScripts, 2)) || time.Since(began) < limit; seed++ {
		o := optionsOf(seed)
		if limit == 0 && !thorough() {
			o.Most, o.Pick = log.Sampled(200, 60), sample.Seed(t)
		}
		rep, v := exploreScript(t, explore.Generate(seed), o)
		total.Add(rep)
		if v != nil {
			t.Fatalf("seed %d: %v\n%s", seed, v, shrunk(t, seed, v))
		}
	}
	t.Logf("seeds %d to %d: %v, %v", first, seed-1, total, time.Since(began).Round(time.Millisecond))
}

// TestScriptsThatOnceFailed runs the scripts in testdata/explore, each of which found a defect. A
// short script is crashed at every call, a long one at some calls.
func TestScriptsThatOnceFailed(t *testing.T) {
	files, err := filepath.Glob("testdata/explore/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	chosen := sample.Fewer(t, 4)
	for i, file := range files {
		if !chosen(i) {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			o := explore.Options{Every: 1, Kinds: 4, Again: 60, Fail: 300, Step: 5}
			if name := filepath.Base(file); !thorough() && (log.RaceEnabled || !showInFewStates[name]) {
				o.Most, o.Pick = log.Sampled(250, 40), sample.Seed(t)
			}
			exploreFile(t, file, o)
		})
	}
}

// showInFewStates are long scripts whose defects show in only a few crashes.
var showInFewStates = map[string]bool{"closed-behind-a-gap.txt": true, "compaction-done-again.txt": true}

func exploreFile(t *testing.T, name string, o explore.Options) {
	o.Share = log.AlwaysShare
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	s, err := explore.Parse(string(text))
	require.NoError(t, err)
	rep, v := exploreScript(t, s, o)
	require.NoError(t, asError(v))
	t.Log(rep)
}

func optionsOf(seed uint64) explore.Options {
	o := explore.Options{Every: 2, Kinds: 1, Again: 25, Fail: 60, Step: 7, Seed: seed, Share: log.AlwaysShare}
	o.Every, o.Again, o.Fail = log.Sampled(o.Every, 5), log.Sampled(o.Again, 50), log.Sampled(o.Fail, 120)
	return o
}

func asError(v *explore.Violation) error {
	if v == nil {
		return nil
	}
	return v
}

// exploreScript runs a script in a synctest bubble. A hanging script is a violation, too.
func exploreScript(t *testing.T, s *explore.Script, o explore.Options) (rep explore.Report, v *explore.Violation) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // few objects live, most are garbage
	defer func() {
		if r := recover(); r != nil {
			v = &explore.Violation{Err: fmt.Errorf("%v", r)}
		}
	}()
	synctest.Test(t, func(*testing.T) { rep, v = explore.Run(s, o) })
	return rep, v
}

// shrunk returns the smallest part of a failing script that also fails, and its failure.
func shrunk(t *testing.T, seed uint64, v *explore.Violation) string {
	o := optionsOf(seed)
	o.Every, o.Kind, o.Last, o.Tries = 1, v.Kind, true, 4
	if v.Kind == "" {
		o = explore.Options{Share: o.Share}
	} else if strings.Contains(v.Error(), "of recovery") {
		o.Again, o.Fail, o.Step = 3, 3, 3
	}
	last, until := v, time.Now().Add(time.Minute)
	fails := func(s *explore.Script) bool {
		if time.Now().After(until) {
			return false
		}
		_, now := exploreScript(t, s, o)
		if now == nil || now.Class() != v.Class() {
			return false
		}
		last = now
		return true
	}
	s := explore.Generate(seed)
	if begin := s.First(v.Op + 1); fails(begin) {
		s = begin
	}
	s = explore.Shrink(s, fails)
	return fmt.Sprintf("shrunk: %v\n%s", last, s)
}

// recoveriesThatFail leave each kind of work to recovery.
var recoveriesThatFail = map[string]string{
	"one log": `
		world logs=1 sync=ack cleanup=both segment=2000 delay=500
		burst 0 n=5
		append 0 n=3
		epoch 0
		burst 0 n=6
		clean 0
		append 0 n=2
		truncate 0 n=2
		append 0 n=1
		delete 0 part=30
		append 0 n=2`,
	"nothing synced": `
		world logs=1 sync=never cleanup=delete segment=2000
		burst 0 n=6
		append 0 n=2
		sync 0
		burst 0 n=3
		append 0 n=1`,
	"a journal": `
		world logs=3 shared=1 share=1 journal=4096 sync=ack cleanup=delete segment=2000
		spread n=2
		spread n=3
		truncate 1 n=1
		spread n=1`,
}

// TestRecoveryThatFailedLosesNothing fails calls of the open after a crash, and opens the log
// again.
func TestRecoveryThatFailedLosesNothing(t *testing.T) {
	for name, text := range recoveriesThatFail {
		t.Run(name, func(t *testing.T) {
			s, err := explore.Parse(text)
			require.NoError(t, err)
			o := explore.Options{Every: 2, Kinds: log.Sampled(2, 1), Fail: log.Sampled(5, 10), Step: 3, Share: log.AlwaysShare}
			// the shortest one; few of its states show the loss from a wrongly trusted sync
			if name == "nothing synced" {
				o.Every, o.Fail, o.Step = 1, log.Sampled(1, 10), 2
			}
			rep, v := exploreScript(t, s, o)
			require.NoError(t, asError(v))
			require.Greater(t, rep.Failed, log.Sampled(100, 20))
			t.Log(rep)
		})
	}
}
