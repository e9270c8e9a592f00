package recovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log/internal/manifest"
)

// facts reads a directory written as "0.log=100 50.log.cleaned=30
// 0.index=0": bases without their zeros.
func facts(t *testing.T, listing string, state manifest.State) Facts {
	t.Helper()
	f := Facts{State: state, Known: state.Version > 0, Boot: "boot", Fresh: 77, Scans: map[int64]Scan{}, SwapEnds: map[int64]int64{}}
	for _, word := range strings.Fields(listing) {
		var base, size int64
		name, number, _ := strings.Cut(word, "=")
		digits, suffix, ok := strings.Cut(name, ".")
		require.True(t, ok)
		_, err := fmt.Sscan(digits, &base)
		require.NoError(t, err)
		_, err = fmt.Sscan(number, &size)
		require.NoError(t, err)
		f.Files = append(f.Files, File{fileName(base, "."+suffix), size})
	}
	return f
}

// segments reads "0=100 50=30i 90=*": i installing, o obsolete, a aside, * any size.
func segments(t *testing.T, text string) (list []manifest.Segment) {
	t.Helper()
	roles := map[byte]manifest.Role{'i': manifest.Installing, 'o': manifest.Obsolete, 'a': manifest.Aside}
	for _, word := range strings.Fields(text) {
		s := manifest.Segment{Size: -1}
		if role, ok := roles[word[len(word)-1]]; ok {
			s.Role, word = role, word[:len(word)-1]
		}
		if strings.HasSuffix(word, "=*") {
			_, err := fmt.Sscanf(word, "%d=*", &s.Base)
			require.NoError(t, err)
		} else {
			_, err := fmt.Sscanf(word, "%d=%d", &s.Base, &s.Size)
			require.NoError(t, err)
		}
		list = append(list, s)
	}
	return list
}

// describe writes a plan as its segments and its steps. "0[0,40)@100" is a segment with 100 bytes
// and next offset 40.
func describe(p Plan) string {
	var out []string
	for _, s := range p.Segments {
		text := fmt.Sprintf("%d[%d,%d)@%d", s.Base, s.Base, s.NextOffset, s.Size)
		if s.Suffix != "" {
			text += s.Suffix
		}
		if s.Unsynced {
			text += "!"
		}
		out = append(out, text)
	}
	text := strings.Join(out, " ")
	for _, s := range p.Steps {
		line := s.String()
		if s.Kind == Store {
			line = "store " + show(s.State)
		}
		text += "\n" + shorten(line)
	}
	return strings.TrimSpace(text)
}

func show(s manifest.State) string {
	var out []string
	if s.Emptied {
		out = append(out, fmt.Sprintf("emptied@%d", s.Start))
	}
	for _, g := range s.Segments {
		size := fmt.Sprint(g.Size)
		if g.Size < 0 {
			size = "*"
		}
		out = append(out, fmt.Sprintf("%d=%s%s", g.Base, size, [...]string{"", "i", "o", "a"}[g.Role]))
	}
	return strings.Join(out, " ")
}

// shorten removes the leading zeros of names.
func shorten(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if len(w) > 20 && strings.HasPrefix(w, "000") {
			digits := strings.TrimLeft(w[:20], "0")
			if digits == "" {
				digits = "0"
			}
			words[i] = digits + w[20:]
		}
	}
	return strings.Join(words, " ")
}

func plan(t *testing.T, f Facts, scans map[int64]Scan) (Plan, error) {
	t.Helper()
	for range 100 {
		p, err := Make(f)
		if err != nil || p.Scan == nil {
			return p, err
		}
		scan, ok := scans[p.Scan.Base]
		require.True(t, ok, "segment %d is to be scanned", p.Scan.Base)
		f.Scans[p.Scan.Base] = scan
	}
	require.Fail(t, "asks for the same scan again")
	return Plan{}, nil
}

func TestPlan(t *testing.T) {
	t.Parallel()
	open := manifest.State{Version: 2, BootID: "other"}
	killed := manifest.State{Version: 2, BootID: "boot"}
	clean := manifest.State{Version: 2, Clean: true, End: 120, Size: 30, RecoveryPoint: 120}
	for _, c := range []struct {
		name   string
		files  string
		state  manifest.State
		named  string // segments of the state
		scans  map[int64]Scan
		swaps  map[int64]int64
		want   string
		failed string
	}{
		{name: "new", want: ""},
		{
			name: "closed in order", files: "0.log=100 0.index=0 100.log=30", state: clean, named: "0=100 100=*",
			want: "0[0,100)@100 100[100,120)@30",
		},
		{
			name: "closed in order, and cut since", files: "0.log=99 100.log=30", state: clean, named: "0=100 100=*",
			failed: "file has 99 bytes, 100 were written",
		},
		{
			name: "closed in order, and grown since", files: "0.log=100 100.log=50 150.log=7", state: clean, named: "0=100 100=*",
			scans: map[int64]Scan{100: {Next: 150, Size: 50}, 150: {Next: 160, Size: 7}},
			want:  "0[0,100)@100 100[100,150)@50! 150[150,160)@7!",
		},
		{
			name: "closed in order, and a later copy's segment behind a hole", files: "0.log=100 100.log=30 150.log=7", state: clean, named: "0=100 100=*",
			scans: map[int64]Scan{100: {Next: 120, Size: 30}}, failed: "00000000000000000100.log ends at offset 120, and the next one begins at 150",
		},
		{
			name: "killed, and a later copy's segments with a hole between them", files: "0.log=100 100.log=30 200.log=7", state: killed, named: "0=*",
			scans: map[int64]Scan{0: {Next: 100, Size: 100}, 100: {Next: 120, Size: 30}}, failed: "00000000000000000100.log ends at offset 120, and the next one begins at 200",
		},
		{
			name: "power cut, and a hole below what was durable", files: "0.log=100 100.log=7", state: manifest.State{Version: 2, BootID: "other", RecoveryPoint: 100}, named: "0=*",
			scans: map[int64]Scan{0: {Next: 80, Size: 100}}, failed: "00000000000000000000.log ends at offset 80, and the next one begins at 100",
		},
		{
			name: "power cut, and a hole above what was durable", files: "0.log=100 100.log=7", state: open, named: "0=*", scans: map[int64]Scan{0: {Next: 80, Size: 100}},
			want: "0[0,80)@100!\nstore 0=* 100=*a\nset aside 100.log as 100.log.aside\nsync the directory",
		},
		{
			name: "a segment is missing", files: "0.log=100 200.log=30", state: killed, named: "0=100 100=40 200=*",
			failed: "00000000000000000100.log is missing",
		},
		{
			name: "a segment below the start is missing", files: "100.log=40 200.log=0", state: manifest.State{Version: 2, BootID: "boot", Start: 150, RecoveryPoint: 200},
			// the last segment is empty: only the names show the end
			named: "0=100 100=40 200=*", want: "100[100,200)@40 200[200,200)@0!\nsync the directory",
		},
		{
			name: "killed", files: "0.log=100 100.log=4096", state: killed, named: "0=100 100=*", scans: map[int64]Scan{100: {Next: 103, Size: 30, Cut: 5}},
			want: "0[0,100)@100! 100[100,103)@30!\ncut 5 bytes off 100.log, offset 103 is next",
		},
		{
			name: "space reserved behind a segment that somebody else closed", files: "0.log=4096 100.log=5", state: manifest.State{Version: 2, BootID: "other", RecoveryPoint: 100},
			named: "0=*", scans: map[int64]Scan{0: {Next: 100, Size: 9}, 100: {Next: 103, Size: 5}}, want: "0[0,100)@9! 100[100,103)@5!",
		},
		{
			name: "a gap of compaction", files: "0.log=100 100.log=50 200.log=60", state: open, named: "0=100 100=50 200=*",
			scans: map[int64]Scan{0: {Next: 80, Size: 100}, 100: {Next: 101, Size: 50}, 200: {Next: 210, Size: 60}},
			want:  "0[0,80)@100! 100[100,101)@50! 200[200,210)@60!",
		},
		{
			name: "a lost end", files: "0.log=100 100.log=40 100.txnindex=0 200.log=60", state: open, named: "0=100 100=50 200=*",
			scans: map[int64]Scan{0: {Next: 100, Size: 100}, 100: {Next: 190, Size: 30, Cut: 10}},
			want: "0[0,100)@100! 100[100,190)@30!\nstore 0=100 100=* 200=*a\nset aside 200.log as 200.log.aside\nsync the directory\n" +
				"cut 10 bytes off 100.log, offset 190 is next",
		},
		{
			name: "a lost end below what was durable", files: "0.log=100 100.log=40", state: manifest.State{Version: 2, RecoveryPoint: 50}, named: "0=120 100=*",
			scans: map[int64]Scan{0: {Next: 49, Size: 100}}, failed: "everything below offset 50 was on stable storage",
		},
		{
			name: "crash while setting aside", files: "0.log=100 100.log=30 200.log.aside=60 300.log=5", state: open, named: "0=100 100=* 200=60a 300=*a",
			scans: map[int64]Scan{0: {Next: 100, Size: 100}, 100: {Next: 190, Size: 30}},
			want:  "0[0,100)@100! 100[100,190)@30!\nsync the directory\nset aside 300.log as 300.log.aside\nsync the directory",
		},
		{
			name: "a name that was set aside before", files: "0.log=1 50.log=9 50.log.aside=3 100.log=0", state: killed, named: "0=1 100=*",
			want: "0[0,100)@1! 100[100,100)@0!\nsync the directory\nset aside 50.log as 50.log.1.aside\nsync the directory",
		},
		{
			name: "removed, but not yet", files: "0.log=100 0.index=5 0.snapshot=4 100.log=0", state: killed, named: "0=100o 100=*",
			want: "100[100,100)@0!\nsync the directory\nremove 0.snapshot\nremove 0.index\nremove 0.log\nsync the directory",
		},
		{
			name: "obsolete by name only", files: "0.log=101 100.log=0", state: killed, named: "0=100o 100=*",
			want: "100[100,100)@0!\nsync the directory\nset aside 0.log as 0.log.aside\nsync the directory",
		},
		{
			name: "a compaction that was not committed", files: "0.log=9 0.log.cleaned=5 0.index.cleaned=1 50.log=7 100.log=0", state: killed, named: "0=9 50=7 100=*",
			want: "0[0,50)@9! 50[50,100)@7! 100[100,100)@0!\nsync the directory\nremove 0.index.cleaned\nremove 0.log.cleaned\nsync the directory",
		},
		{
			name: "a compaction that was taken back", files: "0.log=9 0.log.swap=5 100.log=0", state: killed, named: "0=9 100=*",
			want: "0[0,100)@9! 100[100,100)@0!\nsync the directory\nremove 0.log.swap\nsync the directory",
		},
		{
			name: "a committed compaction", files: "0.log=9 0.log.cleaned=5 0.index.cleaned=1 50.log=7 50.index=3 100.log=0", state: killed, named: "0=5i 50=7o 100=*",
			want: "0[0,100)@5.cleaned! 100[100,100)@0!\nsync the directory\ninstall 0.index.cleaned as 0.index.swap\ninstall 0.log.cleaned as 0.log.swap\nsync the directory\n" +
				"remove 50.index\nremove 50.log\nsync the directory\ninstall 0.index.swap as 0.index\ninstall 0.log.swap as 0.log\nsync the directory",
		},
		{
			name: "half installed, a leftover before it", files: "0.log=9 0.log.cleaned=2 10.index=1 10.log.swap=5 100.log=0", state: killed, named: "0=9 10=5i 50=7o 100=*",
			want: "0[0,10)@9! 10[10,100)@5.swap! 100[100,100)@0!\nsync the directory\nremove 0.log.cleaned\nsync the directory\nremove 10.index\nsync the directory\n" +
				"install 10.log.swap as 10.log\nsync the directory",
		},
		{
			name: "installed but for an index", files: "0.log=5 0.txnindex.swap=5 100.log=0", state: killed, named: "0=5i 50=7o 100=*",
			want: "0[0,100)@5! 100[100,100)@0!\nsync the directory\ninstall 0.txnindex.swap as 0.txnindex\nsync the directory",
		},
		{
			name: "undone by a Kafka broker", files: "0.log=9 50.log=7 100.log=0", state: killed, named: "0=5i 50=7o 100=*",
			want: "0[0,50)@9! 50[50,100)@7! 100[100,100)@0!\nstore 0=9 50=7 100=*",
		},
		{
			name: "undone, and half of it gone", files: "0.log=9 100.log=0", state: killed, named: "0=5i 50=7o 100=*",
			failed: "file has 9 bytes, 5 were written",
		},
		{
			name: "roll that a crash interrupted", files: "0.log=9 100.log=0", state: killed, named: "0=*",
			scans: map[int64]Scan{0: {Next: 100, Size: 9}}, want: "0[0,100)@9!\nstore 0=* 100=0o\nremove 100.log\nsync the directory",
		},
		{
			name: "left by a roll, and gone past since", files: "0.log=9 100.log=0 200.log=0", state: killed, named: "0=*",
			scans: map[int64]Scan{0: {Next: 203, Size: 9}}, want: "0[0,203)@9!\nstore 0=* 100=0o 200=0o\nremove 100.log\nremove 200.log\nsync the directory",
		},
		{
			name: "Kafka went on for two segments", files: "0.log=9 100.log=5 200.log=0", state: killed, named: "0=*",
			scans: map[int64]Scan{0: {Next: 100, Size: 9}, 100: {Next: 200, Size: 5}}, want: "0[0,100)@9! 100[100,200)@5!\nstore 0=* 100=* 200=0o\nremove 200.log\nsync the directory",
		},
		{
			name: "begun anew, interrupted", files: "0.log=9 7.log=5 500.log=0", state: manifest.State{Version: 2, Emptied: true, Start: 500, RecoveryPoint: 500}, named: "0=*o",
			want: "sync the directory\nremove 0.log\nremove 500.log\nsync the directory\nset aside 7.log as 7.log.aside\nsync the directory\nbegin anew at offset 500",
		},
		{
			name: "begun anew, by an older version", files: "0.log=9", state: manifest.State{Version: 1, Emptied: true, Start: 500},
			want: "sync the directory\nremove 0.log\nsync the directory\nbegin anew at offset 500",
		},
		{
			name: "all that was left is lost", files: "0.log=9", state: manifest.State{Version: 2, Start: 50, RecoveryPoint: 10}, named: "0=*", scans: map[int64]Scan{0: {Next: 10, Size: 9}},
			want: "store emptied@50 0=*o\nremove 0.log\nsync the directory\nbegin anew at offset 50",
		},
		{
			name: "what waits to be deleted", files: "0.log=9 0.log.1.deleted=5 0.snapshot.deleted=5", state: killed, named: "0=*", scans: map[int64]Scan{0: {Next: 10, Size: 9}},
			want: "0[0,10)@9!\nsync the directory\nremove 0.log.1.deleted\nremove 0.snapshot.deleted",
		},

		// Without a manifest of format 2.
		{
			name: "Kafka's, compacted and killed", files: "0.log=9 50.log=7 200.log=30",
			scans: map[int64]Scan{0: {Next: 3, Size: 9}, 50: {Next: 199, Size: 7}, 200: {Next: 205, Size: 30}},
			want:  "0[0,3)@9! 50[50,199)@7! 200[200,205)@30!",
		},
		{
			name: "Kafka's, with a torn end in the middle", files: "0.log=9 50.log=7 200.log=30", scans: map[int64]Scan{0: {Next: 3, Size: 5, Cut: 4}},
			want: "0[0,3)@5!\nstore 0=* 50=7a 200=*a\nset aside 50.log as 50.log.aside\nset aside 200.log as 200.log.aside\nsync the directory\ncut 4 bytes off 0.log, offset 3 is next",
		},
		{name: "made by Kafka, and never written to", files: "7.log=0", want: "7[7,7)@0"},
		{
			name: "Kafka's swap", files: "0.log=9 0.log.swap=5 0.index.swap=1 50.log=7 100.log=0", swaps: map[int64]int64{0: 90},
			scans: map[int64]Scan{0: {Next: 90, Size: 5}, 100: {Next: 100}},
			want: "0[0,90)@5.swap! 100[100,100)@0!\nstore 0=5i 50=7o 100=*\nremove 50.log\nsync the directory\n" +
				"install 0.index.swap as 0.index\ninstall 0.log.swap as 0.log\nsync the directory",
		},
		{
			name: "Kafka's split, unfinished", files: "0.log=9 10.log.cleaned=1 10.log.swap=2 20.log.swap=3", scans: map[int64]Scan{0: {Next: 30, Size: 9}}, swaps: map[int64]int64{10: 20, 20: 30},
			want: "0[0,30)@9!\nsync the directory\nremove 10.log.cleaned\nsync the directory\nset aside 10.log.swap as 10.log.swap.aside\n" +
				"set aside 20.log.swap as 20.log.swap.aside\nsync the directory",
		},
		{
			name: "a swap that an older version declared, with a leftover of another", files: "0.log=9 0.log.cleaned=1 50.log.swap=7 100.log=0",
			state: manifest.State{Version: 1, BootID: "boot"}, named: "0=9 50=7 100=*", swaps: map[int64]int64{50: 99},
			want: "0[0,50)@9! 50[50,100)@7.swap! 100[100,100)@0!\nstore 0=9 50=7i 100=*\nremove 0.log.cleaned\nsync the directory\n" +
				"install 50.log.swap as 50.log\nsync the directory",
		},
		{
			name: "Kafka renames the data first", files: "0.log=9 0.timeindex.swap=1", scans: map[int64]Scan{0: {Next: 3, Size: 9}},
			want: "0[0,3)@9!\nsync the directory\ninstall 0.timeindex.swap as 0.timeindex\nsync the directory",
		},
	} {
		c.state.Segments = segments(t, c.named)
		f := facts(t, c.files, c.state)
		if c.swaps != nil {
			f.SwapEnds = c.swaps
		}
		p, err := plan(t, f, c.scans)
		if c.failed != "" {
			require.ErrorContains(t, err, c.failed, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, describe(p), c.name)
	}
}

func TestPlanSaysHowTheLogWasLeft(t *testing.T) {
	t.Parallel()
	f := facts(t, "0.log=5", manifest.State{})
	p, err := plan(t, f, map[int64]Scan{0: {Next: 3, Size: 5}})
	require.NoError(t, err)
	require.True(t, p.Adopted, "Kafka's: it gets a manifest")
	require.False(t, p.Clean)
	f = facts(t, "0.log=5", manifest.State{Version: 2, BootID: "boot", Segments: segments(t, "0=*")})
	p, err = plan(t, f, map[int64]Scan{0: {Next: 3, Size: 5}})
	require.NoError(t, err)
	require.False(t, p.Adopted)
	require.True(t, p.SameBoot)
	var missing *Missing
	_, err = Make(facts(t, "7.log=5", manifest.State{Version: 2, Segments: segments(t, "0=*")}))
	require.True(t, errors.As(err, &missing))
	require.Equal(t, "00000000000000000000.log", missing.Name)
}
